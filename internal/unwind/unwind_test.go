package unwind

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

func init() { runtime.LockOSThread() }

func TestFramesIn(t *testing.T) {
	v := victim.Start(t, "frames")
	var code Range
	var tids [5]int
	if _, err := fmt.Sscanf(v.Ask(t, "?"), "%x %x %d %d %d %d %d", &code.Start, &code.End,
		&tids[0], &tids[1], &tids[2], &tids[3], &tids[4]); err != nil {
		t.Fatal(err)
	}
	tg, err := target.Open(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	u, err := New(tg)
	if err != nil {
		t.Fatal(err)
	}
	tr := ptrace.NewTracer()
	defer tr.Close()
	for i, tc := range []struct {
		name   string
		inside bool
	}{
		{"spinning inside", true},
		{"in a handler above it", true},
		{"in a syscall below it", true},
		{"outside, stale addresses", false},
		{"outside, in short calls", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var pause, stopped time.Duration
			for range 20 {
				s, err := tr.StopOnce(v.PID, tids[i], -1, false)
				if err != nil {
					t.Fatal(err)
				}
				pause, stopped = max(pause, s.Time), max(stopped, s.Stopped)
				stale := 0
				for at := s.Regs.Rsp; at < s.Regs.Rsp+8192; at += 8 {
					if w, err := word(s, at); err == nil && target.Addr(w) >= code.Start && target.Addr(w) < code.End {
						stale++
					}
				}
				inside, complete := u.FramesIn(s, []Range{code})
				if inside != tc.inside || (!inside && !complete) {
					err := u.Walk(s, func(pc target.Addr) bool { t.Logf("%#x", pc); return true })
					t.Fatalf("inside %v, complete %v; want %v; %v", inside, complete, tc.inside, err)
				}
				if i == 3 && stale == 0 {
					t.Fatal("the victim has no stale addresses on its stack: nothing is tested")
				}
			}
			t.Logf("longest stop %v, from its request %v", stopped, pause)
		})
	}
}

// TestWalkEnds: the walk of every thread reaches the outermost frame.
func TestWalkEnds(t *testing.T) {
	v := victim.Start(t, "busy")
	tg, err := target.Open(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	u, err := New(tg)
	if err != nil {
		t.Fatal(err)
	}
	tr := ptrace.NewTracer()
	defer tr.Close()
	tids, err := tg.Threads()
	if err != nil {
		t.Fatal(err)
	}
	ends, walks := 0, 0
	for range 5 {
		for _, tid := range tids {
			stat, err := tg.ThreadStat(tid)
			if err != nil {
				t.Fatal(err)
			}
			s, err := tr.StopOnce(v.PID, tid, stat.CPU, false)
			if err != nil {
				t.Fatal(err)
			}
			frames := 0
			if err := u.Walk(s, func(target.Addr) bool { frames++; return true }); err != nil {
				t.Logf("thread %d at %#x, %d frames: %v", tid, s.Regs.Rip, frames, err)
			} else {
				ends++
			}
			walks++
		}
	}
	t.Logf("%d of %d walks complete", ends, walks)
	// One thread sits on an alternate stack: its walk may end there.
	if ends < walks-walks/len(tids) {
		t.Errorf("only %d of %d walks came to the end", ends, walks)
	}
	v.Unharmed(t)
}
