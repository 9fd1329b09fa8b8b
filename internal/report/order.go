package report

import (
	"container/heap"
	"errors"
)

// The recorder writes kernels roughly in the order of their ends, queue by queue. The
// figures of a GPU need them in the order of their starts. SQLite takes ten times as long to
// sort all of them as to read them, so an order holds back some: that is enough unless a
// kernel ran while very many others started and ended.

// A pendingKernel waits until no kernel can come that started before it.
type pendingKernel struct {
	startNS, endNS, submitNS int64 // submitNS: null if not known
	packet                   int64
	thread                   int64 // its row; null: not known
	kernel                   int32 // its number: without pointers the collector need not look at all of them
}

// errDisorder means that a kernel came too late: SQLite has to sort all of them.
var errDisorder = errors.New("kernels are far from the order of their starts")

const (
	orderRoom      = 1 << 18 // kernels held for all GPUs
	leastOrderRoom = 1 << 10
	farthest       = 1 << 12 // places that a kernel may be too late in its queue
)

// An order sorts the kernels of one GPU.
type order struct {
	queues    queueHeap // queues with kernels, by the start of their first
	pending   int
	room      int
	reachedNS int64 // the start of the last one that was given back
}

// add takes a kernel, and gives the first one back when there is no more room.
func (o *order) add(q *queue, k pendingKernel, give func(*queue, *pendingKernel)) error {
	if k.startNS < o.reachedNS || !q.waiting.insert(k) {
		return errDisorder
	}
	switch q.waiting.count() {
	case 1:
		heap.Push(&o.queues, q)
	default:
		if q.waiting.first().startNS == k.startNS { // perhaps it is the first now
			heap.Fix(&o.queues, q.place)
		}
	}
	if o.pending++; o.pending > o.room {
		o.next(give)
	}
	return nil
}

// next gives the first kernel back.
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

// rest gives all of them back.
func (o *order) rest(give func(*queue, *pendingKernel)) {
	for o.pending > 0 {
		o.next(give)
	}
}

// A stream holds the kernels of a queue by their starts.
type stream struct {
	kernels []pendingKernel
	head    int
}

func (s *stream) count() int { return len(s.kernels) - s.head }

func (s *stream) first() *pendingKernel { return &s.kernels[s.head] }

// insert puts a kernel behind the kernels that started no later. False: it is very late.
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

// A queueHeap has on top the queue whose first kernel started first.
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
