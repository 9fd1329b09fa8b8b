package session

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestTakenOver: a recorder whose lock another one has taken leaves the target alone, and
// says so.
func TestTakenOver(t *testing.T) {
	block := ringtest.NewTarget(t)
	control, err := ring.OpenControl(block.File)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	me, err := resident.Self()
	if err != nil {
		t.Fatal(err)
	}
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
	r := &recording{Preflight: preflight.Preflight{Target: process}, ui: said, link: link{control: control, held: first}, phase: phase{attached: true}, watch: exitWatch{target: process, gone: make(chan struct{})}}
	if err := r.errIfTakenOver(); err != nil {
		t.Error(err)
	}
	second, _, err := control.TakeLock(me, dead)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.detach(); err != nil || r.phase.attached || r.phase.detached || len(said.lines) != 0 {
		t.Errorf("%v, attached %v, detached %v, %q", err, r.phase.attached, r.phase.detached, said.lines)
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
