package simlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"syscall"
	"unsafe"
)

const (
	magic      = 0x4854
	version    = 1
	recordSize = int(unsafe.Sizeof(rawRecord{}))
	namePiece  = 72
	chunkSize  = 512
)

// rawRecord is struct truth_record. The union is named by its larger use; a
// piece of a name occupies the same bytes. TestLayout asks the C compiler.
type rawRecord struct {
	magic       uint16
	version     uint8
	kind        uint8
	flags       uint16
	node        uint16
	pid         uint32
	nameID      uint32
	engineQueue uint32
	nameOffset  uint32
	queue       uint64
	hsaQueueID  uint64
	packet      uint64
	uniqueID    uint64
	startNS     uint64
	endNS       uint64
	signal      uint64
	value       [2]uint64
}

// nameKey: several processes may append to one log, each with its own names.
type nameKey struct {
	pid, id uint32
}

// Reader reads records from a log as it was written.
type Reader struct {
	in     *bufio.Reader
	offset int64
	raw    rawRecord
	pieces map[nameKey][]byte // names not yet complete
	names  map[nameKey]string
	chunk  []Record // memory for the next records
}

// NewReader returns a reader of the records in r.
func NewReader(r io.Reader) *Reader {
	return &Reader{
		in:     bufio.NewReaderSize(r, 1<<20),
		pieces: map[nameKey][]byte{},
		names:  map[nameKey]string{},
	}
}

// Next returns the next record, or io.EOF. A torn record at the end is no record.
func (r *Reader) Next() (*Record, error) {
	for {
		b := unsafe.Slice((*byte)(unsafe.Pointer(&r.raw)), recordSize)
		if _, err := io.ReadFull(r.in, b); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF
			}
			return nil, err
		}
		if r.raw.magic != magic || r.raw.version != version {
			return nil, fmt.Errorf("no truth record at offset %d: magic %#x version %d",
				r.offset, r.raw.magic, r.raw.version)
		}
		r.offset += int64(recordSize)
		if Kind(r.raw.kind) != name {
			return r.record(), nil
		}
		r.addName(b[unsafe.Offsetof(r.raw.queue):])
	}
}

func (r *Reader) addName(piece []byte) {
	key := nameKey{r.raw.pid, r.raw.nameID}
	if r.raw.nameOffset == 0 {
		r.pieces[key] = nil
	}
	text, _, last := bytes.Cut(piece[:namePiece], []byte{0})
	r.pieces[key] = append(r.pieces[key], text...)
	if last {
		r.names[key] = string(r.pieces[key])
		delete(r.pieces, key)
	}
}

// record returns a record that stays as it is. Logs have millions: those who keep them keep
// pointers, as growing a slice of records under the race detector takes most of a test's time.
func (r *Reader) record() *Record {
	if len(r.chunk) == 0 {
		r.chunk = make([]Record, chunkSize)
	}
	raw, rec := &r.raw, &r.chunk[0]
	r.chunk = r.chunk[1:]
	*rec = Record{
		Kind:     Kind(raw.kind),
		Node:     int(raw.node),
		PID:      int(raw.pid),
		Queue:    raw.queue,
		QueueID:  raw.hsaQueueID,
		Engine:   raw.engineQueue,
		Packet:   raw.packet,
		UniqueID: raw.uniqueID,
		StartNS:  raw.startNS,
		EndNS:    raw.endNS,
		Signal:   raw.signal,
		Value:    raw.value,
	}
	switch rec.Kind {
	case Violation:
		rec.Code = Code(raw.flags)
		return rec
	case Kernel:
		rec.Object = raw.value[0]
		rec.Grid = [3]uint32{raw.nameOffset, uint32(raw.value[1]), uint32(raw.value[1] >> 32)}
		rec.Name = r.names[nameKey{raw.pid, raw.nameID}]
	case Copy, Fill:
		rec.Bytes = raw.value[0]
	}
	rec.Flags = Flags(raw.flags)
	return rec
}

// All yields every record of the log at path, and at most one error, last.
func All(path string) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		r := NewReader(f)
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Read returns all records of the log at path, as far as it is written.
func Read(path string) ([]*Record, error) {
	var records []*Record
	for rec, err := range All(path) {
		if err != nil {
			return nil, fmt.Errorf("truth log %s: %w", path, err)
		}
		records = append(records, rec)
	}
	return records, nil
}

// Wait returns when the log at path is complete: every engine that writes it
// holds a shared lock until it has written its last record, also after the
// target was killed. A target whose engine is a thread of its own loses the
// lock, and the records of its last 50 ms, when it is killed.
func Wait(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("wait for truth log %s: %w", path, err)
	}
	return nil
}
