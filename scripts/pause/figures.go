package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
)

// Targets for an attach.
const (
	leastThreads = 20
	mostP50      = 5   // times the floor
	mostP90      = 8   // times the floor
	leastGDB     = 500 // times shorter than gdb's
	mayMove      = 5   // the scheduler may wake one in 5 threads on another processor than its last
)

// figures are the measurements of all attaches.
type figures struct {
	floor, total, own, gdb []time.Duration
	single, ownWorst       []time.Duration // each stop; each attach's longest stop by the tool's own clock

	stops            map[int]int // stops per attach -> attaches
	threads          map[int]int
	fewest           int // the smallest number of threads of a target
	made             int // stops that the tool made in attaches
	realTime, pinned int // of these, ended at real-time priority, and pinned to a processor
	beside           int // of these, on the processor of the stopped thread
	detach, reattach int // stops in detaches and in reattaches
}

func newFigures() *figures {
	return &figures{stops: map[int]int{}, threads: map[int]int{}, fewest: math.MaxInt}
}

func (f *figures) measure(m *pausemeter.Meter, build string) error {
	s, err := startServer(m, build)
	if err != nil {
		return err
	}
	defer s.stop()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.pid))
	if err != nil {
		return err
	}
	f.fewest = min(f.fewest, len(tasks))
	if err := s.floor(); err != nil {
		return err
	}
	floor, err := m.Take()
	if err != nil {
		return err
	}
	if len(floor) != 1 {
		return fmt.Errorf("the floor has %d stops", len(floor))
	}
	f.floor = append(f.floor, floor[0].Duration)

	first, err := s.record()
	if err != nil {
		return err
	}
	f.add(first)
	again, err := s.record()
	f.reattach += len(again.attach)
	f.detach += len(first.detach) + len(again.detach)
	return err
}

func (f *figures) add(r recording) {
	var total time.Duration
	threads := map[uint32]bool{}
	for _, s := range r.attach {
		total += s.Duration
		f.single = append(f.single, s.Duration)
		threads[s.TID] = true
		if int(s.By) != r.tool {
			continue
		}
		f.made++
		if s.RealTime {
			f.realTime++
		}
		if s.Pinned {
			f.pinned++
		}
		if s.Beside {
			f.beside++
		}
	}
	f.total, f.own, f.ownWorst = append(f.total, total), append(f.own, r.own), append(f.ownWorst, r.ownWorst)
	f.stops[len(r.attach)]++
	f.threads[len(threads)]++
}

func percentile(d []time.Duration, q float64) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[int(q*float64(len(d)-1))]
}

// print prints the figures, and reports whether they meet the targets.
func (f *figures) print() (passed bool) {
	row := func(what string, d []time.Duration) {
		fmt.Printf("%-36s p50 %10v  p90 %10v  p99 %10v  worst %10v\n", what, percentile(d, .5), percentile(d, .9), percentile(d, .99), slices.Max(d))
	}
	fmt.Printf("%d attaches, scheduling events\n", len(f.total))
	row("floor (seize, interrupt, detach)", f.floor)
	row("attach, all stops together", f.total)
	row("  by the tool's own clock", f.own)
	row("attach, single stops", f.single)
	row("  longest, by the tool's own clock", f.ownWorst)
	fmt.Printf("stops per attach %v, threads stopped per attach %v\n", f.stops, f.threads)
	fmt.Printf("stops in detaches: %d; in reattaches: %d\n", f.detach, f.reattach)
	if len(f.gdb) > 0 {
		row(fmt.Sprintf("gdb, call dlopen (%d), worst thread", len(f.gdb)), f.gdb)
	}
	return f.judge()
}

func (f *figures) judge() (passed bool) {
	passed = true
	say := func(ok bool, format string, args ...any) {
		word := "PASS"
		if !ok {
			word, passed = "FAIL", false
		}
		fmt.Printf("%s  %s\n", word, fmt.Sprintf(format, args...))
	}
	for _, c := range []struct{ q, most float64 }{{.5, mostP50}, {.9, mostP90}} {
		ratio := float64(percentile(f.total, c.q)) / float64(percentile(f.floor, c.q))
		say(ratio <= c.most, "p%.0f is %.2f times the floor's (at most %v)", 100*c.q, ratio, c.most)
	}
	if len(f.gdb) > 0 {
		ratio := float64(percentile(f.gdb, .5)) / float64(percentile(f.total, .5))
		say(ratio >= leastGDB, "%.0f times shorter than gdb's (at least %d)", ratio, leastGDB)
	} else {
		say(false, "not compared with gdb")
	}
	say(f.fewest >= leastThreads, "targets had %d threads and more (at least %d)", f.fewest, leastThreads)
	say(f.made > 0 && f.realTime == f.made && f.pinned == f.made,
		"of %d stops by the tool, %d ended at real-time priority, %d pinned to a processor", f.made, f.realTime, f.pinned)
	least := f.made - f.made/mayMove
	say(f.beside >= least, "%d on the processor that the stopped thread left (at least %d)", f.beside, least)
	return passed
}
