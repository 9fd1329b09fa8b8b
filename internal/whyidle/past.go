package whyidle

import "sort"

// past holds what threads did lately, to say what a waker did while another thread was blocked.
type past struct {
	threads map[int64]*threadPast
	entries int
	sinceNS int64 // of threads that are not held
}

// threadPast is the latest part of one thread's past.
type threadPast struct {
	waits   []pastWait // in the order of time
	samples []pastSample
	sinceNS int64 // what was before is forgotten
}

type pastWait struct {
	outNS, wokenNS, inNS int64
	stack, syscall       int64
}

type pastSample struct{ timeNS, stack int64 }

// mostOfThread limits the waits, and the samples, that are held of a thread: of a longer time only the
// last part counts. mostOfAll limits them for all threads.
const (
	mostOfThread = 1 << 11
	mostOfAll    = 1 << 20
)

// of returns the past of a thread. At the limit it forgets everything up to nowNS.
func (p *past) of(thread, nowNS int64) *threadPast {
	if p.entries > mostOfAll {
		clear(p.threads)
		p.entries, p.sinceNS = 0, nowNS
	}
	t := p.threads[thread]
	if t == nil {
		t = &threadPast{sinceNS: p.sinceNS}
		p.threads[thread] = t
		p.entries++
	}
	return t
}

func (p *past) addWait(w *wait) {
	t := p.of(w.thread, w.inNS)
	if len(t.waits) == mostOfThread {
		half := t.waits[mostOfThread/2:]
		t.sinceNS = max(t.sinceNS, half[0].outNS)
		t.waits = t.waits[:copy(t.waits, half)]
		p.entries -= mostOfThread / 2
	}
	t.waits = append(t.waits, pastWait{w.outNS, w.wokenNS, w.inNS, w.stack, w.syscall})
	p.entries++
}

func (p *past) addSample(s *sample) {
	t := p.of(s.thread, s.timeNS)
	if len(t.samples) == mostOfThread {
		half := t.samples[mostOfThread/2:]
		t.sinceNS = max(t.sinceNS, half[0].timeNS)
		t.samples = t.samples[:copy(t.samples, half)]
		p.entries -= mostOfThread / 2
	}
	t.samples = append(t.samples, pastSample{s.timeNS, s.stack})
	p.entries++
}

// doing is what a thread did in some times: its waits, and the time in which it ran, with the samples
// in it.
type doing struct {
	waits     map[Meanwhile]int64 // by state and stack; NS is 0
	runningNS int64
	samples   map[int64]int64 // by stack
}

// mostDoing limits the different stacks of one waker.
const mostDoing = 1 << 8

func (d *doing) wait(state State, stack, ns int64) {
	if ns <= 0 {
		return
	}
	if d.waits == nil {
		d.waits = map[Meanwhile]int64{}
	}
	key := Meanwhile{State: state, Stack: stack}
	if _, known := d.waits[key]; !known && len(d.waits) >= mostDoing {
		key.Stack = 0
	}
	d.waits[key] += ns
}

func (d *doing) sample(stack int64) {
	if d.samples == nil {
		d.samples = map[int64]int64{}
	}
	if _, known := d.samples[stack]; !known && len(d.samples) >= mostDoing {
		stack = 0
	}
	d.samples[stack]++
}

// add adds what a thread did from beginNS to endNS.
func (d *doing) add(t *threadPast, beginNS, endNS int64) {
	if beginNS = max(beginNS, t.sinceNS); beginNS >= endNS {
		return
	}
	at := beginNS
	first := sort.Search(len(t.waits), func(i int) bool { return t.waits[i].inNS > beginNS })
	for _, w := range t.waits[first:] {
		if w.outNS >= endNS {
			break
		}
		d.runningNS += max(0, min(w.outNS, endNS)-at)
		d.wait(Blocked, w.stack, min(w.wokenNS, endNS)-max(w.outNS, at))
		d.wait(Ready, w.stack, min(w.inNS, endNS)-max(w.wokenNS, at))
		at = max(at, min(w.inNS, endNS))
	}
	d.runningNS += endNS - at
	first = sort.Search(len(t.samples), func(i int) bool { return t.samples[i].timeNS >= beginNS })
	for _, s := range t.samples[first:] {
		if s.timeNS >= endNS {
			break
		}
		d.sample(s.stack)
	}
}

// meanwhile returns all of it, the time in which the thread ran shared out by its samples.
func (d *doing) meanwhile() (all []Meanwhile) {
	for key, ns := range d.waits {
		key.NS = ns
		all = append(all, key)
	}
	samples := map[stateStack]int64{}
	for stack, n := range d.samples {
		samples[stateStack{state: Running, stack: stack}] = n
	}
	shareOut(d.runningNS, samples, func(key stateStack, ns, _ int64) {
		if ns > 0 {
			all = append(all, Meanwhile{key.state, key.stack, ns})
		}
	})
	sortMeanwhile(all)
	return all
}
