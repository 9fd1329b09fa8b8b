package trigger

import "github.com/rtl-attach/rtl-attach/tracedb"

// spanNS is a time in which a kernel ran.
type spanNS struct{ start, end uint64 }

// byStart puts the kernels of one GPU in the order of their starts: a heap of those that ended lately.
type byStart []spanNS

// mostSpans limits the heap; with more, a kernel is taken before others that started earlier may arrive.
const mostSpans = 1 << 20

func (h *byStart) push(s spanNS) {
	*h = append(*h, s)
	for i := len(*h) - 1; i > 0; {
		parent := (i - 1) / 2
		if (*h)[parent].start <= (*h)[i].start {
			return
		}
		(*h)[parent], (*h)[i] = (*h)[i], (*h)[parent]
		i = parent
	}
}

func (h *byStart) pop() spanNS {
	old := *h
	first, last := old[0], len(old)-1
	old[0] = old[last]
	*h = old[:last]
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && old[child].start < old[least].start {
				least = child
			}
		}
		if least == i {
			return first
		}
		old[least], old[i] = old[i], old[least]
		i = least
	}
}

// gpus are the kernels of each GPU, in the order of their starts.
type gpus struct {
	set   *Set
	gpu   map[uint32]*gpu // by agent
	visit func(*gpu, spanNS)
}

// gpu is one GPU to a detector.
type gpu struct {
	pending   byStart
	coveredNS uint64   // end of the latest kernel that was taken
	busy      []uint64 // see busy
	newest    uint64   // number of the newest slice of busy
	firstNS   uint64   // start of the first kernel
	below     bool     // the condition held at the last look
}

func newGPUs(s *Set, visit func(*gpu, spanNS)) gpus {
	return gpus{set: s, gpu: map[uint32]*gpu{}, visit: visit}
}

func (g *gpus) add(d *tracedb.Dispatch) {
	agent := g.set.agentOf(d.Queue)
	one := g.gpu[agent]
	if one == nil {
		if len(g.gpu) >= mostAgents {
			return
		}
		one = &gpu{}
		g.gpu[agent] = one
	}
	one.pending.push(spanNS{d.StartNS, d.EndNS})
	if len(one.pending) > mostSpans {
		g.take(one)
	}
}

func (g *gpus) take(one *gpu) {
	s := one.pending.pop()
	g.visit(one, s)
	one.coveredNS = max(one.coveredNS, s.end)
}

// until takes the kernels that started before a time.
func (g *gpus) until(ns uint64) {
	for _, one := range g.gpu {
		for len(one.pending) > 0 && one.pending[0].start < ns {
			g.take(one)
		}
	}
}

// cover takes a time in which kernels may have run for busy.
func (g *gpus) cover(fromNS, untilNS uint64) {
	if fromNS == 0 || untilNS <= fromNS {
		return
	}
	for _, one := range g.gpu {
		one.pending.push(spanNS{fromNS, untilNS})
	}
}
