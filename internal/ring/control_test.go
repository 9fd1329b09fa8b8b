package ring_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

func openControl(t *testing.T, target *ringtest.Target) *ring.Control {
	t.Helper()
	c, err := ring.OpenControl(target.File)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestOpenControlRefuses(t *testing.T) {
	target := ringtest.NewTarget(t)
	target.Control.ABIVersion = 99
	if _, err := ring.OpenControl(target.File); !errors.Is(err, ring.ErrVersion) {
		t.Errorf("version: %v", err)
	}
	target.Control.Magic = 1
	if _, err := ring.OpenControl(target.File); !errors.Is(err, ring.ErrMalformed) {
		t.Errorf("magic: %v", err)
	}
	target.Control.Magic = 0
	if _, err := ring.OpenControl(target.File); !errors.Is(err, ring.ErrUnfinished) {
		t.Errorf("no magic: %v", err)
	}
	if _, err := ring.OpenControl(ringtest.Memfd(t, 4096)); !errors.Is(err, ring.ErrMalformed) {
		t.Errorf("size: %v", err)
	}
}

func TestSnapshotIsHarmless(t *testing.T) {
	target := ringtest.NewTarget(t)
	for i := range target.Control.ErrorText {
		target.Control.ErrorText[i] = 'x' // no NUL
	}
	copy(target.Control.ErrorText[:], "bad\x1b[31m\nnews\xff\u202e")
	target.Control.Error = -int32(unix.ENOMEM)
	target.Control.BuildIDLen = 1 << 30
	s := openControl(t, target).Snapshot()
	if !strings.HasPrefix(s.ErrorText, `bad\x1b[31m\nnews`+"\ufffd"+`\u202ex`) || len(s.ErrorText) > 2*ring.TextMax {
		t.Errorf("text %q", s.ErrorText)
	}
	if s.Error != unix.ENOMEM || len(s.BuildID) != ring.BuildIDMax {
		t.Errorf("%v, build id of %d bytes", s.Error, len(s.BuildID))
	}
	target.Control.Error = 1 << 30
	if s := openControl(t, target).Snapshot(); s.Error != unix.EPROTO {
		t.Errorf("nonsense became %v", s.Error)
	}
}

func TestCommand(t *testing.T) {
	target := ringtest.NewTarget(t)
	c := openControl(t, target)
	env := []byte("environment")
	go target.Serve(func(cmd ring.Command, got []byte) int32 {
		if cmd != ring.CommandReattach || !bytes.Equal(got, env) {
			t.Errorf("command %d with %q", cmd, got)
		}
		return 0
	})
	if err := c.Reattach(env, hang.Limit); err != nil {
		t.Fatal(err)
	}

	copy(target.Control.ErrorText[:], "no queues")
	go target.Serve(func(ring.Command, []byte) int32 { return -int32(unix.EBUSY) })
	err := c.Detach(ring.EndOtherTool, hang.Limit, nil)
	var failed *ring.CommandError
	if !errors.As(err, &failed) || !errors.Is(err, unix.EBUSY) || failed.Text != "no queues" {
		t.Errorf("got %v", err)
	}
	if ring.End(target.Control.Argument) != ring.EndOtherTool {
		t.Errorf("detached for reason %d", target.Control.Argument)
	}
	c.SkipDrain()
	if target.Control.SkipDrain != 1 {
		t.Error("the drain goes on")
	}
}

func TestCommandToAWedgedThread(t *testing.T) {
	c := openControl(t, ringtest.NewTarget(t))
	if err := c.Ping(time.Millisecond); !errors.Is(err, ring.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	if err := c.Reattach(make([]byte, ring.EnvMax+1), time.Millisecond); err == nil {
		t.Error("an environment beyond its room was accepted")
	}
}

// A detach that gets on is waited for, however long it takes.
func TestLongDetach(t *testing.T) {
	target := ringtest.NewTarget(t)
	c := openControl(t, target)
	const looks = 20 // each takes longer than the time-out
	n := uint64(0)
	err := c.Detach(ring.EndDetach, time.Millisecond, func() uint64 {
		if n++; n == looks {
			go target.Serve(func(ring.Command, []byte) int32 { return 0 })
		}
		return n
	})
	if err != nil || n < looks {
		t.Errorf("after %d looks: %v", n, err)
	}
}

// A reattach that was given up is not there any more for a thread that comes late; a
// detach is.
func TestLateCommands(t *testing.T) {
	target := ringtest.NewTarget(t)
	c := openControl(t, target)
	for _, k := range []struct {
		send func() error
		late ring.Command
	}{
		{func() error { return c.Reattach(nil, time.Millisecond) }, ring.CommandPing},
		{func() error { return c.Detach(ring.EndDetach, time.Millisecond, nil) }, ring.CommandDetach},
	} {
		if err := k.send(); !errors.Is(err, ring.ErrNoAnswer) {
			t.Errorf("got %v", err)
		}
		target.Serve(func(cmd ring.Command, _ []byte) int32 {
			if cmd != k.late {
				t.Errorf("found command %d, want %d", cmd, k.late)
			}
			return 0
		})
	}
}

func TestWaitState(t *testing.T) {
	target := ringtest.NewTarget(t)
	c := openControl(t, target)
	if s := c.WaitState(ring.StateIdle, time.Millisecond); s != ring.StateIdle {
		t.Errorf("state %d", s)
	}
	target.Control.State = uint32(ring.StateActive)
	if s := c.WaitState(ring.StateIdle, hang.Limit); s != ring.StateActive {
		t.Errorf("state %d", s)
	}
}

func TestLock(t *testing.T) {
	target := ringtest.NewTarget(t)
	c := openControl(t, target)
	alive := func(ring.Holder) bool { return true }
	dead := func(ring.Holder) bool { return false }
	first := ring.Holder{PID: 100, StartTicks: 5, PIDNS: 7}
	second := ring.Holder{PID: 200, StartTicks: 6, PIDNS: 7}

	a, _, err := c.TakeLock(first, alive)
	if err != nil {
		t.Fatal(err)
	}
	if _, h, err := c.TakeLock(second, alive); !errors.Is(err, ring.ErrHeld) || h != first {
		t.Errorf("beside a live holder: %v, %v", h, err)
	}
	c.RequestStop()
	a.Beat()
	if !a.StopRequested() || target.Control.Recorder.Beat != 1 {
		t.Error("stop request or heartbeat lost")
	}

	b, _, err := c.TakeLock(second, dead)
	if err != nil {
		t.Fatal(err)
	}
	if b.StopRequested() {
		t.Error("the stop request of the dead holder's session was inherited")
	}
	a.Release() // it woke up again: the lock is no longer its own
	if h, held := c.Holder(); !held || h != second || a.Held() || !b.Held() {
		t.Errorf("held by %v", h)
	}
	b.Release()
	if _, held := c.Holder(); held {
		t.Error("still held")
	}
}

func TestGrace(t *testing.T) {
	target := ringtest.NewTarget(t)
	c := openControl(t, target)
	if _, ok := c.PendingAsk(); ok {
		t.Error("an ask out of nothing")
	}
	g := target.Grace
	g.TIDs[0], g.TIDs[1] = 11, 12
	g.Ranges[0] = ring.Range{Lo: 0x1000, Hi: 0x2000}
	g.Ranges[1] = ring.Range{Lo: 0x2000, Hi: 0x1000} // empty: dropped
	g.Count, g.RangeCount, g.AskSeq = 2, 1<<31, 1
	ask, ok := c.PendingAsk()
	if !ok || len(ask.TIDs) != 2 || ask.TIDs[1] != 12 || len(ask.Ranges) != 1 {
		t.Fatalf("ask %+v", ask)
	}
	if err := c.Answer(ask, nil); err == nil {
		t.Error("an answer without verdicts was accepted")
	}
	if err := c.Answer(ask, []ring.Verdict{ring.VerdictOutside, ring.VerdictGone}); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.PendingAsk(); ok || ring.Verdict(g.Verdicts[1]) != ring.VerdictGone {
		t.Error("not answered")
	}
}

// FuzzControl: every word of the control block is the target's.
func FuzzControl(f *testing.F) {
	shared := ringtest.NewTarget(f)
	f.Add(bytes.Clone(shared.Mem[:512]), uint16(0))
	f.Add([]byte("\x1b[2J\n\xff"), uint16(unsafe.Offsetof(ring.ControlLayout{}.ErrorText)))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, uint16(ring.GraceOffset))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		clear(shared.Mem)
		shared.Control.Magic, shared.Control.ABIVersion, shared.Control.SizeBytes = ring.ControlMagic, ring.ABIVersion, ring.ControlBytes
		copy(shared.Mem[at:], b)
		c, err := ring.OpenControl(shared.File)
		if err != nil {
			return
		}
		defer c.Close()
		s := c.Snapshot()
		if len(s.BuildID) > ring.BuildIDMax || sanitize.Text(s.ErrorText) != s.ErrorText {
			t.Fatalf("%+v", s)
		}
		c.Counters()
		if ask, ok := c.PendingAsk(); ok {
			if err := c.Answer(ask, make([]ring.Verdict, len(ask.TIDs))); err != nil || len(ask.Ranges) > ring.GraceRanges {
				t.Fatalf("%d threads, %d ranges: %v", len(ask.TIDs), len(ask.Ranges), err)
			}
		}
		if l, _, err := c.TakeLock(ring.Holder{PID: 1}, func(ring.Holder) bool { return false }); err == nil {
			l.Release()
		}
	})
}
