package report

import (
	"container/heap"
	"errors"
)

// The recorder writes kernels roughly in the order of their ends, queue by queue. The figures
// of a GPU need the order of starts. SQLite takes ten times as long to sort all kernels as to
// read them, so order sorts a limited number in memory. That is enough unless very many other
// kernels started and ended while one kernel ran.

// pendingKernel waits until no earlier kernel can arrive.
type pendingKernel struct {
	startNS, endNS, submitNS int64 // submitNS: null if not known
	packet                   int64
	packetsAfter             int64 // up to its last one, of several filtered kernels
	thread                   int64 // its row; null: not known
	behind                   bool  // has the barrier bit
	kernel                   int32 // its number, or filteredKernel; not a pointer: the garbage collector need not scan pending kernels
}

// errDisorder means that a kernel arrived too late: SQLite must sort all kernels.
var errDisorder = errors.New("kernels are far from the order of their starts")

const (
	orderRoom      = 1 << 18 // kernels held for all GPUs
	leastOrderRoom = 1 << 10
	farthest       = 1 << 12 // how many later kernels of its queue may precede a kernel
)

// order sorts the kernels of one GPU.
type order struct {
	queues    queueHeap // queues with kernels, by the start of their first
	pending   int
	room      int
	reachedNS int64 // the start of the last kernel that was returned
}

// add adds a kernel, and returns the first one if there is no more room.
func (o *order) add(q *queue, k pendingKernel, give func(*queue, *pendingKernel)) error {
	if k.startNS < o.reachedNS || !q.waiting.insert(k) {
		return errDisorder
	}
	switch q.waiting.count() {
	case 1:
		heap.Push(&o.queues, q)
	default:
		if q.waiting.first().startNS == k.startNS { // it may be the first now
			heap.Fix(&o.queues, q.place)
		}
	}
	if o.pending++; o.pending > o.room {
		o.next(give)
	}
	return nil
}

// next removes and returns the first kernel.
func (o *order) next(give func(*queue, *pendingKernel)) {
	q := o.queues[0]
	k := q.waiting.first()
	o.reachedNS = k.startNS
	o.pending--
	give(q, k)
	if q.waiting.drop(); q.waiting.count() == 0 {
		heap.Pop(&o.queues)
		return
	}
	heap.Fix(&o.queues, 0)
}

// rest removes all kernels, in order.
func (o *order) rest(give func(*queue, *pendingKernel)) {
	for o.pending > 0 {
		o.next(give)
	}
}

// stream holds the kernels of a queue, sorted by start.
type stream struct {
	kernels []pendingKernel
	head    int
}

func (s *stream) count() int { return len(s.kernels) - s.head }

func (s *stream) first() *pendingKernel { return &s.kernels[s.head] }

// insert inserts a kernel after all kernels that did not start later. False: more than
// farthest kernels started later.
func (s *stream) insert(k pendingKernel) bool {
	at := len(s.kernels)
	s.kernels = append(s.kernels, k)
	least := max(s.head, at-farthest)
	for ; at > least && s.kernels[at-1].startNS > k.startNS; at-- {
		s.kernels[at] = s.kernels[at-1]
	}
	s.kernels[at] = k
	return at == s.head || s.kernels[at-1].startNS <= k.startNS
}

// drop removes the first kernel.
func (s *stream) drop() {
	s.head++
	if s.head == len(s.kernels) || s.head > farthest && s.head > len(s.kernels)/2 {
		n := copy(s.kernels, s.kernels[s.head:])
		s.kernels, s.head = s.kernels[:n], 0
	}
}

// queueHeap is a heap of queues by the start of their first kernel.
type queueHeap []*queue

func (h queueHeap) Len() int { return len(h) }

func (h queueHeap) Less(i, j int) bool {
	a, b := h[i].waiting.first().startNS, h[j].waiting.first().startNS
	return a < b || a == b && h[i].ID < h[j].ID
}

func (h queueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *queueHeap) Push(x any) {
	q := x.(*queue)
	q.place = len(*h)
	*h = append(*h, q)
}

func (h *queueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
