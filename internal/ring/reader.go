package ring

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reader is the only consumer of a ring. One goroutine uses it.
//
// It never reads its published tail back: it keeps a private copy, which the producer cannot
// change.
type Reader struct {
	page   []byte // the header page, writable for the tail
	lines  []byte // the records, mapped read-only
	shared *RingLayout

	sizeBytes uint64
	watermark uint64
	tail      uint64 // consumed up to here
	head      uint64 // read up to here; a correct producer only increases it

	nextSeq uint32
	started bool
	holes   uint64
	broken  error // a corrupt ring stays corrupt

	record Record
	text   []byte // of the current string record
}

// Open maps a ring and checks its whole header. maxSize limits the memory that a target can make
// the tool map. f can be closed afterwards.
func Open(f *os.File, wantGeneration uint32, maxSize uint64) (*Reader, error) {
	fileBytes, err := sealedSize(f)
	if err != nil {
		return nil, err
	}
	if fileBytes < PageBytes+LineBytes || uint64(fileBytes)-PageBytes > maxSize {
		return nil, fmt.Errorf("%w ring: file of %d bytes, at most %d allowed", ErrMalformed, fileBytes, maxSize)
	}
	sizeBytes := uint64(fileBytes) - PageBytes
	page, err := unix.Mmap(int(f.Fd()), 0, PageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring header: %w", err)
	}
	lines, err := unix.Mmap(int(f.Fd()), PageBytes, int(sizeBytes), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map ring: %w", err), unix.Munmap(page))
	}
	r := &Reader{
		page: page, lines: lines, sizeBytes: sizeBytes,
		shared: (*RingLayout)(unsafe.Pointer(&page[0])),
		text:   make([]byte, 0, stringTextOffset+StringMax+LineBytes),
	}
	if err := r.checkHeader(wantGeneration); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// checkHeader reads each field once, so that the target cannot change it after the check.
func (r *Reader) checkHeader(wantGeneration uint32) error {
	magic := atomic.LoadUint64(&r.shared.Magic)
	version := atomic.LoadUint32(&r.shared.ABIVersion)
	generation := atomic.LoadUint32(&r.shared.Generation)
	size := atomic.LoadUint64(&r.shared.SizeBytes)
	watermark := atomic.LoadUint64(&r.shared.WatermarkBytes)
	tail := atomic.LoadUint64(&r.shared.Tail)
	switch {
	case magic != RingMagic:
		return fmt.Errorf("%w ring: magic %#x", ErrMalformed, magic)
	case version != ABIVersion:
		return fmt.Errorf("ring: %w: %d, this tool speaks %d", ErrVersion, version, ABIVersion)
	case generation != wantGeneration:
		return fmt.Errorf("%w ring: of session %d, expected %d", ErrMalformed, generation, wantGeneration)
	case size != r.sizeBytes:
		return fmt.Errorf("%w ring: header says %d bytes, file has %d", ErrMalformed, size, r.sizeBytes)
	case bits.OnesCount64(size) != 1:
		return fmt.Errorf("%w ring: %d bytes is not a power of two", ErrMalformed, size)
	case tail != 0:
		return fmt.Errorf("%w ring: consumed up to %d by another reader", ErrMalformed, tail)
	}
	// A watermark beyond the ring would never be reached; with 0, Wait would never sleep.
	r.watermark = min(max(watermark, LineBytes), size)
	return nil
}

// SizeBytes returns the size of the space for records.
func (r *Reader) SizeBytes() uint64 { return r.sizeBytes }

// ConsumedBytes returns how many bytes were drained.
func (r *Reader) ConsumedBytes() uint64 { return r.tail }

// Holes returns the number of missing sequence numbers.
func (r *Reader) Holes() uint64 { return r.holes }

// Ended reports whether the producer has written its last record. A Drain that begins after
// Ended has returned true reads all records.
func (r *Reader) Ended() bool { return atomic.LoadUint32(&r.shared.Ended) != 0 }

// Wait sleeps until the ring is filled to its watermark or ended, at most for
// timeout; it may return early.
func (r *Reader) Wait(timeout time.Duration) {
	// The word is read before the conditions: a bump in between ends the sleep at once.
	word := atomic.LoadUint32(&r.shared.Wake)
	if r.Ended() || atomic.LoadUint64(&r.shared.Head)-r.tail >= r.watermark {
		return
	}
	sleepOn(&r.shared.Wake, word, timeout)
}

// Close unmaps the ring. Records and texts are valid only during their calls.
func (r *Reader) Close() error {
	if r.Ended() && atomic.LoadUint64(&r.shared.Head) == r.tail {
		r.release()
	}
	return errors.Join(unix.Munmap(r.lines), unix.Munmap(r.page))
}

// release frees the memory of a ring that has been read to its end: a forked child of the target
// may keep the descriptor open for a long time. If the kernel refuses, the memory stays allocated
// until then.
func (r *Reader) release() {
	if unix.Mprotect(r.lines, unix.PROT_READ|unix.PROT_WRITE) == nil {
		_ = unix.Madvise(r.lines, unix.MADV_REMOVE)
	}
}
