package stuck

import (
	"cmp"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Limits of the search for queues of a process that hangs.
const (
	scanBytesMax  = 8 << 30
	scanTimeMax   = 20 * time.Second
	chunkBytes    = 1 << 20
	candidatesMax = 1 << 16
	queuesMax     = 1024
)

// Search says how much of the process's memory was searched for queues.
type Search struct {
	Bytes   uint64 `json:"bytes"`   // searched
	Skipped uint64 `json:"skipped"` // bytes of mappings that were left out, or could not be read

	most   uint64 // bytes to search
	buffer []byte
}

// bounds limit a search.
type bounds struct {
	bytes  uint64
	time   time.Duration
	enough int // queues; 0: search everything
}

// doorbell is a doorbell signal that may belong to a queue.
type doorbell struct{ at, queue uint64 }

// mayHoldSignals reports whether the runtime may have its signals in a mapping: it takes them from its
// own pools of memory that the GPU can reach, which is anonymous memory, the heap, or the driver's.
func mayHoldSignals(m target.Map) bool {
	if !strings.HasPrefix(m.Perms, "rw") {
		return false
	}
	return m.Anonymous() || m.Path == "[heap]" || strings.HasPrefix(m.Path, "[anon") || strings.HasPrefix(m.Path, "/dev/kfd") ||
		strings.HasPrefix(m.Path, "/dev/dri/") || strings.HasPrefix(m.Path, "/memfd:")
}

// findQueues searches the memory for queues, the small mappings first: the runtime's pools of signals
// are small, and what a server holds for its models is large. present returns the parts of a mapping that are in memory.
func findQueues(mem io.ReaderAt, maps []target.Map, present func(target.Map, uint64) ([]target.Span, error), most bounds) ([]*rawQueue, Search) {
	s := Search{most: most.bytes}
	maps = slices.DeleteFunc(slices.Clone(maps), func(m target.Map) bool { return !mayHoldSignals(m) })
	slices.SortStableFunc(maps, func(a, b target.Map) int { return cmp.Compare(a.End-a.Start, b.End-b.Start) })
	deadline := time.Now().Add(most.time)
	var found []*rawQueue
	known := map[uint64]bool{}
	candidates := 0
	for _, m := range maps {
		if most.enough > 0 && len(found) >= most.enough {
			break
		}
		spans, err := present(m, s.most-min(s.most, s.Bytes))
		if err != nil || s.Bytes >= s.most || time.Now().After(deadline) {
			s.Skipped += uint64(m.End - m.Start)
			continue
		}
		for _, span := range spans {
			s.scan(mem, span, deadline, func(b []byte, at uint64) {
				for _, d := range doorbellsIn(b, at) {
					if candidates++; candidates > candidatesMax || len(found) >= queuesMax || known[d.queue] {
						return
					}
					if q := queueOf(mem, d); q != nil {
						known[q.at] = true
						found = append(found, q)
					}
				}
			})
		}
	}
	slices.SortFunc(found, func(a, b *rawQueue) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) })
	return found, s
}

// scan calls look for each piece of a span, which begins at a page.
func (s *Search) scan(mem io.ReaderAt, span target.Span, deadline time.Time, look func(b []byte, at uint64)) {
	if s.buffer == nil {
		s.buffer = make([]byte, chunkBytes)
	}
	for at := span.Start; at < span.End; {
		b := s.buffer[:min(chunkBytes, uint64(span.End-at))]
		if time.Now().After(deadline) || s.Bytes >= s.most {
			s.Skipped += uint64(span.End - at)
			return
		}
		if _, err := mem.ReadAt(b, int64(at)); err != nil {
			s.Skipped += uint64(len(b))
		} else {
			s.Bytes += uint64(len(b))
			look(b, uint64(at))
		}
		at += target.Addr(len(b))
	}
}

// doorbellsIn returns the doorbell signals in memory that was read from a page's address: both their kind
// and their queue are as the runtime writes them.
func doorbellsIn(b []byte, at uint64) (found []doorbell) {
	for ; len(b) >= signalBytes; b, at = b[signalBytes:], at+signalBytes {
		if kind := int64(binary.LittleEndian.Uint64(b)); kind != kindDoorbell && kind != kindLegacyDoorbell {
			continue
		}
		if s := parseSignal((*[signalBytes]byte)(b)); aligned(s.queue) {
			found = append(found, doorbell{at, s.queue})
		}
	}
	return found
}

// queueOf returns the queue of a doorbell signal if the queue says that this is its doorbell; nil
// otherwise. A copy of either in memory that was released does not pass: they name each other's addresses.
func queueOf(mem io.ReaderAt, d doorbell) *rawQueue {
	q, err := readQueue(mem, d.queue)
	if err != nil || q.doorbell != d.at {
		return nil
	}
	return q
}
