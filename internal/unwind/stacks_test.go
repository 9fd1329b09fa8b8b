package unwind

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestStacksAgree: walks with kept rules find the frames that walks without find.
func TestStacksAgree(t *testing.T) {
	runtime.LockOSThread()
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
	maps, err := tg.Maps()
	if err != nil {
		t.Fatal(err)
	}
	s := NewStacks(tg, maps)
	tr := ptrace.NewTracer()
	defer tr.Close()
	tids, err := tg.Threads()
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for range 5 {
		for _, tid := range tids {
			snapshot, err := tr.StopOnce(v.PID, tid, -1, false)
			if err != nil {
				t.Fatal(err)
			}
			frames += agree(t, u, s, snapshot)
		}
	}
	t.Logf("%d frames, %d rules", frames, len(s.rules))
	v.Unharmed(t)
}

func agree(t *testing.T, u *Unwinder, s *Stacks, snapshot *ptrace.Snapshot) (frames int) {
	t.Helper()
	var want, got []uint64
	wantErr := u.Walk(snapshot, func(pc target.Addr) bool { want = append(want, uint64(pc)); return true })
	start := [17]uint64(fromRegs(&snapshot.Regs))
	err := s.Walk(&start, snapshot.Base, snapshot.Stack, func(pc, _ uint64) bool { got = append(got, pc); return true })
	if (err == nil) != (wantErr == nil) || len(got) != len(want) {
		t.Errorf("%d frames, %v; without kept rules %d, %v", len(got), err, len(want), wantErr)
		return len(got)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("frame %d at %#x; without kept rules %#x", i, got[i], want[i])
		}
	}
	return len(got)
}

// TestStacksLimits: without memory a walk is cut, outside of code there is none, and the rules are limited.
func TestStacksLimits(t *testing.T) {
	s := NewStacks(nothing{}, nil)
	var r [17]uint64
	began := time.Now()
	for pc := range uint64(2 * rulesMax) {
		r[regPC] = pc
		if err := s.Walk(&r, 0, nil, func(_, _ uint64) bool { return true }); !errors.Is(err, ErrNoCode) {
			t.Fatal(err)
		}
	}
	if len(s.rules) > rulesMax {
		t.Errorf("%d rules", len(s.rules))
	}
	t.Log(time.Since(began))
}

type nothing struct{}

func (nothing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("no memory") }
