package flight

import (
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	chunkBytes    = 256 << 10
	mostRecord    = ring.StringMax + ring.LineBytes // a kept record is not larger
	leastChunks   = 4
	mostRotation  = time.Second // a chunk gets no further records after this time
	leastRotation = 20 * time.Millisecond
	rotations     = 32 // chunks in the time to keep, at least
)

// store keeps the last records of a session: for a time, and up to a number of bytes. One goroutine
// owns it; pins may be taken back by others.
type store struct {
	keep  time.Duration
	most  func() uint64 // bytes; it may change
	now   func() uint64 // CLOCK_BOOTTIME, ns
	holes func() uint64

	open     *chunk
	openedNS uint64
	chunks   []*chunk // closed, oldest first
	bytes    uint64   // capacity of all chunks
	windows  openWindows

	floorNS  uint64 // everything that ended at or after it is kept
	bySize   bool   // the size, not the time, has set floorNS
	older    uint64 // records dropped
	seenHole uint64

	mu   sync.Mutex
	free []*chunk
}

// chunk is a run of records, in the form of ring.Record.AppendTo. Closed, it does not change.
type chunk struct {
	bytes   []byte
	records uint64
	holes   uint64                 // missing records
	lastNS  uint64                 // when it was closed: its records arrived, and ended, before
	windows [][ring.LineBytes]byte // the records of windows
	pins    int                    // see store.mu
}

func newStore(keep time.Duration, fromNS uint64, most, now, holes func() uint64) *store {
	s := &store{keep: keep, most: most, now: now, holes: holes, floorNS: fromNS, windows: openWindows{}}
	s.begin()
	return s
}

// begin opens a chunk: a used one, if there is any.
func (s *store) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		s.open, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.open = &chunk{}
	}
	s.openedNS = s.now()
}

// add keeps a record.
func (s *store) add(r *ring.Record) {
	if len(s.open.bytes) > chunkBytes-mostRecord {
		s.close()
	}
	if r.Type() == ring.TypeWindow {
		s.open.windows = append(s.open.windows, lineOf(r))
	}
	s.open.bytes = r.AppendTo(s.open.bytes)
	s.open.records++
}

// close closes the open chunk, and drops what is too old or too much.
func (s *store) close() {
	holes := s.holes()
	s.open.holes, s.seenHole = holes-s.seenHole, holes
	s.open.lastNS = s.now()
	s.chunks = append(s.chunks, s.open)
	s.bytes += uint64(cap(s.open.bytes))
	s.begin()
	s.limitSize()
}

// limitSize drops the oldest chunks if there are too many bytes.
func (s *store) limitSize() {
	for s.bytes > max(s.most(), leastChunks*chunkBytes)-chunkBytes && len(s.chunks) > 0 {
		s.drop(true)
	}
}

// age closes a chunk that has been open for long, and drops chunks that are too old.
func (s *store) age() {
	now := s.now()
	rotation := min(max(s.keep/rotations, leastRotation), mostRotation)
	if len(s.open.bytes) > 0 && now-s.openedNS > uint64(rotation) {
		s.close()
	}
	s.limitSize()
	for len(s.chunks) > 0 && s.chunks[0].lastNS+uint64(s.keep) < now {
		s.drop(false)
	}
}

// drop drops the oldest chunk.
func (s *store) drop(bySize bool) {
	c := s.chunks[0]
	s.chunks[0] = nil
	s.chunks = s.chunks[1:]
	s.bytes -= uint64(cap(c.bytes))
	s.windows.follow(c)
	s.floorNS, s.bySize = c.lastNS, bySize
	s.older += c.records
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.pins == 0 {
		s.recycle(c)
	}
}

// recycle keeps the memory of a chunk for the next one. The caller holds s.mu.
func (s *store) recycle(c *chunk) {
	if len(s.free) < leastChunks && cap(c.bytes) <= 2*chunkBytes {
		*c = chunk{bytes: c.bytes[:0], windows: c.windows[:0]}
		s.free = append(s.free, c)
	}
}

// cut is a part of a store that does not change.
type cut struct {
	chunks  []*chunk
	windows openWindows // at its begin
	fromNS  uint64
	limit   string // see tracedb.Trigger
	older   uint64
	release func()
}

// cut returns the records that arrived from fromNS on. The caller must release it.
func (s *store) cut(fromNS uint64) cut {
	if len(s.open.bytes) > 0 {
		s.close()
	}
	c := cut{windows: s.windows.clone(), fromNS: max(fromNS, s.floorNS), older: s.older}
	c.limit = s.limit(fromNS)
	for _, one := range s.chunks {
		if one.lastNS < c.fromNS {
			c.windows.follow(one)
			c.older += one.records
			continue
		}
		c.chunks = append(c.chunks, one)
	}
	s.pin(c.chunks)
	c.release = func() { s.unpin(c.chunks) }
	return c
}

// limit says why a part that should begin at fromNS begins where it does.
func (s *store) limit(fromNS uint64) string {
	switch {
	case fromNS >= s.floorNS:
		return tracedb.LimitTime
	case s.older == 0:
		return tracedb.LimitStart
	case s.bySize:
		return tracedb.LimitSize
	}
	return tracedb.LimitTime
}

func (s *store) pin(chunks []*chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range chunks {
		one.pins++
	}
}

func (s *store) unpin(chunks []*chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range chunks {
		one.pins-- // the garbage collector frees it, if it was dropped meanwhile
	}
}

// sizeOf returns the bytes of all chunks.
func (s *store) sizeOf() uint64 { return s.bytes + uint64(cap(s.open.bytes)) }

// newestNS returns when the last records arrived, or later.
func (s *store) newestNS() uint64 {
	if n := len(s.chunks); n > 0 && len(s.open.bytes) == 0 {
		return s.chunks[n-1].lastNS
	}
	return s.now()
}

// holes returns the missing records of the part.
func (c *cut) holes() (n uint64) {
	for _, one := range c.chunks {
		n += one.holes
	}
	return n
}
