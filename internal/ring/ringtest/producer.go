// Package ringtest is the payload's side of a ring and of a control block, for tests.
package ringtest

import (
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Producer writes a ring like the payload's worker.
type Producer struct {
	File   *os.File
	Header *ring.RingLayout // for tests that tamper with it
	Lines  []byte

	head uint64
	seq  uint32
}

// NewProducer makes a sealed ring of session 1.
func NewProducer(t testing.TB, sizeBytes uint64) *Producer {
	t.Helper()
	file := Memfd(t, ring.PageBytes+int64(sizeBytes))
	mem := mapAll(t, file)
	p := &Producer{
		File:   file,
		Header: (*ring.RingLayout)(unsafe.Pointer(&mem[0])),
		Lines:  mem[ring.PageBytes:],
	}
	p.Header.Magic = ring.RingMagic
	p.Header.ABIVersion = ring.ABIVersion
	p.Header.Generation = 1
	p.Header.SizeBytes = sizeBytes
	p.Header.WatermarkBytes = sizeBytes * 3 / 4
	return p
}

// Memfd makes a memory file that is sealed against changes of its size.
func Memfd(t testing.TB, sizeBytes int64) *os.File {
	t.Helper()
	return named(t, "ringtest", sizeBytes)
}

func named(t testing.TB, name string, sizeBytes int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate(name, unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { _ = file.Close() })
	if err := file.Truncate(sizeBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	return file
}

func mapAll(t testing.TB, file *os.File) []byte {
	t.Helper()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

// line is any record of one line.
type line interface {
	ring.Dispatch | ring.Untimed | ring.Window | ring.LostRecord | ring.Launch |
		ring.Queue | ring.Agent | ring.CodeObject | ring.KindAccount | ring.Unavailable | ring.EndRecord
}

// Put writes a record of one line; false: the ring is full.
func Put[T line](p *Producer, record T) bool {
	h := (*ring.Header)(unsafe.Pointer(&record))
	h.Type, h.Lines = uint16(typeOf(record)), 1
	return p.write(unsafe.Slice((*byte)(unsafe.Pointer(&record)), ring.LineBytes))
}

// PutAs writes a record of a kind's own type; false: the ring is full.
func PutAs[T any](p *Producer, t ring.Type, record T) bool {
	lines := (unsafe.Sizeof(record) + ring.LineBytes - 1) / ring.LineBytes
	bytes := make([]byte, lines*ring.LineBytes)
	copy(bytes, unsafe.Slice((*byte)(unsafe.Pointer(&record)), unsafe.Sizeof(record)))
	*(*ring.Header)(unsafe.Pointer(&bytes[0])) = ring.Header{Type: uint16(t), Lines: uint16(lines)}
	return p.write(bytes)
}

func typeOf(record any) ring.Type {
	switch record.(type) {
	case ring.Dispatch:
		return ring.TypeDispatch
	case ring.Untimed:
		return ring.TypeUntimed
	case ring.Window:
		return ring.TypeWindow
	case ring.LostRecord:
		return ring.TypeLost
	case ring.Launch:
		return ring.TypeLaunch
	case ring.Queue:
		return ring.TypeQueue
	case ring.Agent:
		return ring.TypeAgent
	case ring.CodeObject:
		return ring.TypeCodeObject
	case ring.KindAccount:
		return ring.TypeKindAccount
	case ring.Unavailable:
		return ring.TypeUnavailable
	default:
		return ring.TypeEnd
	}
}

// String writes a string record; false: the ring is full.
func (p *Producer) String(id uint32, text string) bool {
	const textOffset = 16
	lines := (textOffset + len(text) + ring.LineBytes - 1) / ring.LineBytes
	record := make([]byte, lines*ring.LineBytes)
	head := (*ring.StringLine)(unsafe.Pointer(&record[0]))
	head.Header = ring.Header{Type: uint16(ring.TypeString), Lines: uint16(lines)}
	head.ID, head.LenBytes = id, uint32(len(text))
	copy(record[textOffset:], text)
	return p.write(record)
}

// Unknown writes a record of a type that no tool knows; false: the ring is full.
func (p *Producer) Unknown(t ring.Type, lines uint16) bool {
	record := make([]byte, int(lines)*ring.LineBytes)
	*(*ring.Header)(unsafe.Pointer(&record[0])) = ring.Header{Type: uint16(t), Lines: lines}
	return p.write(record)
}

// Hole skips sequence numbers, as if records had been dropped without a report.
func (p *Producer) Hole(records uint32) { p.seq += records }

// End writes the last record and wakes the reader.
func (p *Producer) End(record ring.EndRecord) bool {
	if !Put(p, record) {
		return false
	}
	atomic.StoreUint32(&p.Header.Ended, 1)
	p.Wake()
	return true
}

// Wake wakes the reader, as the worker does at the watermark.
func (p *Producer) Wake() {
	atomic.AddUint32(&p.Header.Wake, 1)
	futex(&p.Header.Wake, futexWake, 1)
}

// write numbers a record, copies it in and publishes it.
func (p *Producer) write(record []byte) bool {
	sizeBytes := uint64(len(p.Lines))
	if p.head+uint64(len(record))-atomic.LoadUint64(&p.Header.Tail) > sizeBytes {
		return false
	}
	(*ring.Header)(unsafe.Pointer(&record[0])).Seq = p.seq
	p.seq++
	for at := 0; at < len(record); at += ring.LineBytes {
		copy(p.Lines[p.head%sizeBytes:], record[at:at+ring.LineBytes])
		p.head += ring.LineBytes
	}
	atomic.StoreUint64(&p.Header.Head, p.head)
	return true
}
