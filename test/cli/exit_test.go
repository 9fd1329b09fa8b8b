package cli

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Ways in which a target ends.
var deaths = []struct {
	name string
	die  func(*testing.T, *subject)
}{
	{"SIGKILL", func(t *testing.T, s *subject) { s.signal(t, unix.SIGKILL) }},
	{"SIGABRT", func(t *testing.T, s *subject) { s.signal(t, unix.SIGABRT) }},
	{"SIGTERM", func(t *testing.T, s *subject) { s.signal(t, unix.SIGTERM) }},
	{"quit", func(_ *testing.T, s *subject) { _, _ = s.ask("/quit") }},
}

// TestTargetEnds: the target ends at a random moment of a recording in the same way as without the
// tool, and the trace has everything that was written until then.
func TestTargetEnds(t *testing.T) {
	for _, death := range deaths {
		t.Run(death.name, func(t *testing.T) {
			t.Parallel() // a killed target's engine is init's to reap, which may take a second
			alone := serve(t)
			death.die(t, alone)
			want, said := alone.ended(t), alone.rest(t)
			for range testenv.Times(4, 50) {
				s := serve(t)
				moment := time.Duration(rand.Int64N(int64(400 * time.Millisecond)))
				r := s.record(t, hang.Limit)
				r.Says(t, "attached")
				s.written(t)
				time.AfterFunc(moment, func() { death.die(t, s) }) // the random moment is what is tested
				if got := s.ended(t); got != want {
					t.Errorf("after %v: wait status %#x, alone it is %#x", moment, got, want)
				}
				if got := s.rest(t); (got == "") != (said == "") {
					t.Errorf("after %v: its last words were %q, alone %q", moment, got, said)
				}
				r.MustExit(t, 5)
				r.savedUntilTheEnd(t)
				s.engineEnded(t)
				r.KeepEvidence(t)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// rest is all that the target has printed since it was ready.
func (s *subject) rest(t testing.TB) string {
	t.Helper()
	var all []string
	for line := s.line(t); line != ""; line = s.line(t) {
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

func (r *run) savedUntilTheEnd(t testing.TB) {
	t.Helper()
	sum := r.ReadSummary(t)
	if len(sum.Sessions) == 0 {
		return // it went before anything could be recorded
	}
	last := sum.Sessions[len(sum.Sessions)-1]
	if sum.Coverage.Timed == 0 {
		t.Errorf("no dispatch in the trace: %+v", sum.Coverage)
	}
	if last.EndReason == "" {
		t.Errorf("the trace does not say how it ended: %+v", last)
	}
	if said := r.Stderr.String(); !strings.Contains(said, "exited while attached") {
		t.Errorf("the tool does not say what happened:\n%s", said)
	}
}

// readable: a killed recorder's trace can be opened, and says that it is one.
// The trace of a recorder that was killed before it had created the tables has its own error.
func (r *run) readable(t testing.TB) {
	t.Helper()
	sum, err := report.Summarize(r.Trace, 1)
	if errors.Is(err, tracedb.ErrNotTrace) || err != nil && strings.Contains(err.Error(), "no such table") {
		return // it died before it had made its tables
	}
	if err != nil {
		t.Errorf("the killed recorder's trace cannot be read: %v", err)
		return
	}
	for _, s := range sum.Sessions {
		if s.Complete && s.EndReason == "" {
			t.Errorf("a killed recorder's session counts as complete: %+v", s)
		}
	}
}

// engineEnded: no process of the target's is left, as a zombie or otherwise.
func (s *subject) engineEnded(t testing.TB) {
	t.Helper()
	if s.engine == 0 {
		return
	}
	if !hang.Eventually(func() bool { return errors.Is(unix.Kill(s.engine, 0), syscall.ESRCH) }) {
		t.Errorf("the target's engine (pid %d) is still there", s.engine)
	}
}
