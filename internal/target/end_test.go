package target_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestLeaderEnds: the thread through which a target was looked at ends later, the leader
// and then another; the process goes on.
func TestLeaderEnds(t *testing.T) {
	v := victim.Start(t, "zombie", "late")
	tg := open(t, v.PID)
	if tg.LiveThread() != v.PID {
		t.Fatalf("looked at through thread %d", tg.LiveThread())
	}
	for _, ends := range []string{"the leader", "another"} {
		v.Tell(t, "x")
		if line := v.Line(t); line != "ready" {
			t.Fatalf("%s is to end: it said %q", ends, line)
		}
		wait(t, v.PID, "Z") // it is joined a little before
		maps, err := tg.Maps()
		if err != nil || len(maps) == 0 {
			t.Errorf("%s has ended: %d mappings through thread %d, %v", ends, len(maps), tg.LiveThread(), err)
		}
		if err := tg.CheckIdentity(); err != nil {
			t.Errorf("%s has ended: %v", ends, err)
		}
	}
}

// TestLeaving: the main thread has ended, and others go on: so it looks, too, while
// all of a process's threads are on their way.
func TestLeaving(t *testing.T) {
	for name, want := range map[string]bool{"plain": false, "zombie": true} {
		v := victim.Start(t, name)
		if want {
			wait(t, v.PID, "Z") // through a leader that is about to end nothing can be read
		}
		tg := open(t, v.PID)
		if err := tg.CheckIdentity(); err != nil || !tg.Alive() {
			t.Fatalf("%s: %v", name, err)
		}
		if !hang.Eventually(func() bool { return tg.Leaving() == want }) { // it is joined a little before
			t.Errorf("%s: leaving %v", name, !want)
		}
	}
}

// TestWaitGone: once a process has been killed it is not said to go on, however far each of
// its threads has got with its end.
func TestWaitGone(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for i := range rounds {
		v := victim.Start(t, "busy", "futex", "read", "sleep", "epoll", "spin", "futex", "futex", "futex")
		tg := open(t, v.PID)
		if err := unix.Kill(v.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * time.Microsecond) // looks at other moments of its end
		if err := tg.WaitGone(hang.Limit); !errors.Is(err, target.ErrGone) {
			t.Errorf("round %d: %v", i, err)
		}
		v.Stop()
	}
}
