package trigger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

const ms = uint64(1e6)

// setOf returns a set for one condition, with a queue on each of two GPUs and two kernels.
func setOf(t testing.TB, text string) *Set {
	t.Helper()
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSet([]Condition{c})
	define(s)
	return s
}

func define(s *Set) {
	for id := range uint32(4) {
		s.Queue(tracedb.Queue{ID: 1 + id, Agent: 1 + id%2})
	}
	s.Launch(tracedb.Launch{ID: 1, Symbol: "gemm.kd"})
	s.Launch(tracedb.Launch{ID: 2, Symbol: "copy.kd"})
}

// play runs kernels of 1 ms, 2 ms apart, on one queue.
func play(s *Set, n int) {
	define(s)
	for i := range uint64(n) {
		at := 100*ms + 2*ms*i
		s.Kernels([]tracedb.Dispatch{{Queue: 1, Launch: 1, StartNS: at, EndNS: at + ms, SubmitNS: at - ms/2}})
		s.Settle(at+ms, false)
	}
}

// ran is a kernel from start to end, in ms.
func ran(queue, launch uint32, start, end uint64) tracedb.Dispatch {
	return tracedb.Dispatch{Queue: queue, Launch: launch, StartNS: start * ms, EndNS: end * ms, SubmitNS: start*ms - ms/2}
}

func values(fired []Firing) (all []string) {
	for _, f := range fired {
		all = append(all, fmt.Sprintf("%d: %s", f.AtNS/ms, f.Value))
	}
	return all
}

func TestGap(t *testing.T) {
	for name, test := range map[string]struct {
		kernels []tracedb.Dispatch // as they end
		lost    [2]uint64          // ms
		idle    bool
		want    []string
	}{
		"short":         {kernels: []tracedb.Dispatch{ran(1, 1, 100, 110), ran(1, 1, 150, 160)}},
		"long":          {kernels: []tracedb.Dispatch{ran(1, 1, 100, 110), ran(1, 1, 200, 210)}, want: []string{"200: 90 ms"}},
		"covered later": {kernels: []tracedb.Dispatch{ran(1, 1, 100, 110), ran(1, 1, 200, 210), ran(3, 1, 105, 400)}},
		"other GPU":     {kernels: []tracedb.Dispatch{ran(1, 1, 100, 110), ran(2, 1, 150, 160), ran(1, 1, 200, 210)}, want: []string{"200: 90 ms"}},
		"lost":          {kernels: []tracedb.Dispatch{ran(1, 1, 100, 110), ran(1, 1, 200, 210)}, lost: [2]uint64{120, 190}},
		"lasts":         {kernels: []tracedb.Dispatch{ran(1, 1, 100, 110)}, idle: true, want: []string{"5000: 4.89 s so far"}},
		"before all":    {kernels: []tracedb.Dispatch{ran(1, 1, 100, 110)}},
	} {
		s := setOf(t, "gap>50ms")
		for _, k := range test.kernels {
			s.Kernels([]tracedb.Dispatch{k})
		}
		s.Lost(test.lost[0]*ms, test.lost[1]*ms)
		s.Settle(5000*ms, test.idle)
		s.Settle(5000*ms, test.idle)
		if got := values(s.Take()); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A gap that has fired while it lasted does not fire again at its end; the next one does.
func TestGapOnce(t *testing.T) {
	s := setOf(t, "gap>50ms")
	s.Kernels([]tracedb.Dispatch{ran(1, 1, 100, 110)})
	s.Settle(1000*ms, true)
	s.Kernels([]tracedb.Dispatch{ran(1, 1, 1100, 1110), ran(1, 1, 1200, 1210)})
	s.Settle(5000*ms, false)
	if got, want := values(s.Take()), []string{"1000: 890 ms so far", "1200: 90 ms"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBusy(t *testing.T) {
	s := setOf(t, "busy<30% for 1s")
	load := func(from, until, length uint64) {
		for at := from; at < until; at += 10 {
			s.Kernels([]tracedb.Dispatch{ran(1, 1, at, at+length), ran(3, 1, at, at+1)}) // the second one overlaps
			s.Settle((at+length)*ms, false)
		}
	}
	load(1000, 4000, 5)
	if got := s.Take(); len(got) > 0 {
		t.Errorf("half busy: %q", values(got))
	}
	load(4000, 7000, 2)
	if got := values(s.Take()); len(got) != 1 || !strings.Contains(got[0], ": 29.") {
		t.Errorf("20 %%: %q", got)
	}
	load(7000, 9000, 6)
	load(9000, 12000, 1)
	if got := s.Take(); len(got) != 1 {
		t.Errorf("after it was busy again: %q", values(got))
	}
}

func TestKernel(t *testing.T) {
	s := setOf(t, "kernel /^ge/ > 3x p50")
	for i := range uint64(200) {
		s.Kernels([]tracedb.Dispatch{ran(1, 1, 100+10*i, 102+10*i), ran(1, 2, 103+10*i, 109+10*i)})
	}
	s.Kernels([]tracedb.Dispatch{ran(1, 1, 5000, 5006), ran(1, 2, 5010, 5100), ran(1, 1, 6000, 6007)})
	if got, want := values(s.Take()), []string{"6007: gemm: 7 ms, 3.5 times 2 ms"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s = setOf(t, "kernel /copy/ > 5ms")
	s.Kernels([]tracedb.Dispatch{ran(1, 1, 100, 110), ran(1, 2, 100, 105), ran(1, 2, 110, 116)})
	if got, want := values(s.Take()), []string{"116: copy: 6 ms"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLatency(t *testing.T) {
	s := setOf(t, "launch-latency p99 > 5ms")
	submit := func(from, n, latency uint64) {
		for i := range n {
			d := ran(1, 1, from+5*i, from+5*i+1)
			d.SubmitNS = d.StartNS - latency*ms
			s.Kernels([]tracedb.Dispatch{d})
		}
	}
	submit(1000, 400, 1)
	submit(3000, 400, 7)
	submit(5000, 10, 9) // too few
	s.Settle(9000*ms, true)
	if got := values(s.Take()); len(got) != 1 || !strings.HasSuffix(got[0], "7 ms") {
		t.Errorf("%q", got)
	}
}

// A target that invents queues, launches and times makes a set use bounded memory.
func TestHostile(t *testing.T) {
	var all []Condition
	for _, text := range []string{"gap>1ms", "busy<50% for 100ms", "kernel /./ > 2x p50", "launch-latency p50 > 1us"} {
		c, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	s := NewSet(all)
	for i := range uint32(mostLaunches + 1000) {
		s.Queue(tracedb.Queue{ID: i, Agent: i})
		s.Launch(tracedb.Launch{ID: i, Symbol: fmt.Sprint(i % 7)})
		s.Kernels([]tracedb.Dispatch{{Queue: i, Launch: i, StartNS: uint64(i) << 40, EndNS: 1 << 62, SubmitNS: 1 << 61}, {Queue: i, EndNS: uint64(i)}})
	}
	s.Lost(1, 1<<62)
	s.Settle(1<<62, true)
	s.Settle(0, true)
	if n := len(s.Take()); n > mostFirings {
		t.Errorf("%d firings", n)
	}
	if len(s.agents) > mostQueues || len(s.names) > mostLaunches {
		t.Errorf("%d queues, %d names", len(s.agents), len(s.names))
	}
}
