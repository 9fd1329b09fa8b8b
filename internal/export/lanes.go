package export

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Readers draw the slices of one track as nested. Kernels of one queue may overlap without
// nesting, so an export spreads them over lanes without overlaps.

// mostLanes limits the concurrent kernels of one queue, mostLanesInAll those of all queues.
const mostLanes, mostLanesInAll = 4096, 1 << 18

// lanes holds for each queue the end of the last kernel on each of its lanes; for a track,
// the end of the last event.
type lanes[Of comparable] struct {
	ends map[Of][]int64
	all  int
}

func newLanes[Of comparable]() *lanes[Of] { return &lanes[Of]{ends: map[Of][]int64{}} }

// place returns the lane of a kernel or event. The caller passes them in the order of their
// starts.
func (ls *lanes[Of]) place(of Of, startNS, endNS int64) (int, error) {
	ends := ls.ends[of]
	free := slices.IndexFunc(ends, func(end int64) bool { return end <= startNS })
	if free >= 0 {
		ends[free] = endNS
		return free, nil
	}
	if len(ends) == mostLanes || ls.all == mostLanesInAll {
		return 0, tooMany(len(ends))
	}
	ls.ends[of] = append(ends, endNS)
	ls.all++
	return len(ends), nil
}

// mostInFlight limits the items in a level: more than the packets of many large queues.
const mostInFlight = 1 << 21

// levels holds the levels of one kind, by the ids of their GPUs or queues.
type levels struct {
	byID     map[int64]*level
	inFlight int
}

func newLevels() *levels { return &levels{byID: map[int64]*level{}} }

func (ls *levels) add(id, beginNS, endNS int64, emit levelFunc) error {
	l, ok := ls.byID[id]
	if !ok {
		l = &level{}
		ls.byID[id] = l
	}
	before := len(l.ends)
	err := l.add(beginNS, endNS, emit)
	if ls.inFlight += len(l.ends) - before; ls.inFlight > mostInFlight {
		return fmt.Errorf("over %d dispatches at once: %w", mostInFlight, traceread.ErrImpossible)
	}
	return err
}

// level counts concurrent items: kernels that run on a GPU, or wait in a queue. It emits
// values in ascending time, each once it is final.
type level struct {
	ends   int64Heap
	atNS   int64
	value  int
	unsaid bool // value, which holds since atNS, is not emitted yet
}

type levelFunc func(atNS int64, value int) error

// add counts an item from one time to another. The caller adds items in the order of their
// begins.
func (l *level) add(beginNS, endNS int64, emit levelFunc) error {
	if err := l.until(beginNS, emit); err != nil {
		return err
	}
	heap.Push(&l.ends, max(endNS, beginNS))
	return l.set(beginNS, emit)
}

// until removes the items that end up to a time.
func (l *level) until(atNS int64, emit levelFunc) error {
	for len(l.ends) > 0 && l.ends[0] <= atNS {
		end := heap.Pop(&l.ends).(int64)
		if err := l.set(end, emit); err != nil {
			return err
		}
	}
	return nil
}

func (l *level) set(atNS int64, emit levelFunc) error {
	if err := l.say(atNS, emit); err != nil {
		return err
	}
	l.atNS, l.value, l.unsaid = atNS, len(l.ends), true
	return nil
}

// say emits the value, which is final when a later time begins.
func (l *level) say(atNS int64, emit levelFunc) error {
	if !l.unsaid || atNS == l.atNS {
		return nil
	}
	l.unsaid = false
	return emit(l.atNS, l.value)
}

// finish removes all items.
func (l *level) finish(emit levelFunc) error {
	if err := l.until(traceread.LatestNS*2, emit); err != nil {
		return err
	}
	return l.say(traceread.LatestNS*2, emit)
}

type int64Heap []int64

func (h int64Heap) Len() int           { return len(h) }
func (h int64Heap) Less(i, j int) bool { return h[i] < h[j] }
func (h int64Heap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *int64Heap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *int64Heap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
