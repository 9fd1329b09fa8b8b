package session

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// lockable is a control block, and this process as who would take its lock.
func lockable(t *testing.T) (*ringtest.Target, *ring.Control, ring.Holder) {
	t.Helper()
	block := ringtest.NewTarget(t)
	control, err := ring.OpenControl(block.File)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { control.Close() })
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	return block, control, me
}

// TestLives: a recorder in another pid namespace lives as long as its heart beats.
func TestLives(t *testing.T) {
	before := silence
	silence = 300 * time.Millisecond
	defer func() { silence = before }()
	block, control, me := lockable(t)
	if !lives(control)(me) {
		t.Error("this process counts as dead")
	}
	foreign := me
	foreign.PIDNS++
	if lives(control)(foreign) {
		t.Error("one without a heartbeat counts as alive")
	}
	silence = hang.Limit // for whoever beats on a starved machine
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(time.Millisecond); ; {
			select {
			case <-over:
				return
			case <-tick:
				atomic.AddUint64(&block.Control.Recorder.Beat, 1)
			}
		}
	}()
	alive := lives(control)(foreign)
	close(over)
	<-done
	if !alive {
		t.Error("one with a heartbeat counts as dead")
	}
	if !holderAlive(foreign) {
		t.Error("by a look alone one of another namespace counts as dead")
	}
}

// TestTakenOver: a recorder that was taken for dead leaves the target to its successor,
// and says so.
func TestTakenOver(t *testing.T) {
	block, control, me := lockable(t)
	dead := func(ring.Holder) bool { return false }
	first, _, err := control.TakeLock(me, dead)
	if err != nil {
		t.Fatal(err)
	}
	process, err := target.Open(victim.Start(t, "plain").PID)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	said := &warned{}
	r := &recording{approach: approach{target: process}, ui: said, control: control, held: first, attached: true, gone: make(chan struct{})}
	if err := r.errIfTakenOver(); err != nil {
		t.Error(err)
	}
	second, _, err := control.TakeLock(me, dead)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.detach(); err != nil || r.attached || r.detached || len(said.lines) != 0 {
		t.Errorf("%v, attached %v, detached %v, %q", err, r.attached, r.detached, said.lines)
	}
	// The target was attached to: 3 would say that it was not touched.
	if f := r.traceFailure(r.errIfTakenOver()); f.Code != failure.Failed || strings.Contains(f.Target, "detached") || !strings.Contains(f.What, "not complete") {
		t.Errorf("%+v", f)
	}
	if seq := atomic.LoadUint32(&block.Control.CommandSeq); seq != 0 || !second.Held() {
		t.Errorf("%d commands to the successor's target, which it holds: %v", seq, second.Held())
	}
}

type warned struct {
	Observer
	lines []string
}

func (w *warned) Warn(line string) { w.lines = append(w.lines, line) }
