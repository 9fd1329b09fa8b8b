package faults

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// run is one process of the tool.
type run struct {
	*harness.Command
	first string // what a first try said, which recorded nothing
}

// record attaches to a process with the tool, and waits for the tool's end.
// On a starved machine the victim may launch nothing in so short a time: then record again for
// longer.
func record(t *testing.T, pid int, args ...string) *run {
	t.Helper()
	r := recording(t, "rtl-attach", pid, args...)
	if r.Exit(t) == nothingSeen {
		first := r.Stderr.String()
		r = recording(t, "rtl-attach", pid, append(args, "-d", "5s")...)
		r.first = first
		r.Exit(t)
	}
	return r
}

const nothingSeen = int(failure.NothingSeen)

// goneWell are the successful exit codes of a recording so short that a starved victim may launch
// nothing in it.
var goneWell = []int{0, nothingSeen}

// recording starts a tool that attaches.
func recording(t *testing.T, tool string, pid int, args ...string) *run {
	t.Helper()
	r := prepared(t, tool, pid, args...)
	r.Start(t)
	return r
}

// prepared returns such a tool, not started.
func prepared(t *testing.T, tool string, pid int, args ...string) *run {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "t.db")
	r := newRun(t, tool, append([]string{"-p", strconv.Itoa(pid), "-d", "300ms", "-o", trace, "-v"}, args...)...)
	r.Trace = trace
	return r
}

// newRun returns a tool with these arguments, not started.
func newRun(t *testing.T, tool string, args ...string) *run {
	t.Helper()
	return &run{Command: harness.NewProgram(t, tool, args...)}
}

// wrapped returns a command that runs the tool, not started.
func wrapped(trace string, cmd *exec.Cmd) *run {
	r := &run{Command: harness.Wrap(cmd)}
	r.Trace = trace
	return r
}

// attaches waits until the tool prints that it is attached.
func (r *run) attaches() bool {
	return hang.Eventually(func() bool { return r.HasSaid("✓ attached") })
}

// ok fails the test unless the recording has worked, and returns the number of dispatches in the
// trace.
func (r *run) ok(t *testing.T) int64 {
	t.Helper()
	if r.Code != 0 {
		t.Fatalf("exit code %d\n%s", r.Code, r.Stderr.String())
	}
	s := r.ReadSummary(t)
	if s.Coverage.Timed == 0 {
		t.Errorf("no dispatch in the trace: %+v\n%s", s.Coverage, r.Stderr.String())
	}
	return s.Coverage.Timed
}

// injected runs only the injector, with longer timeouts for a starved machine, unless the request
// has its own.
func injected(t *testing.T, v *victim.Victim, r inject.Request) (*inject.Report, error) {
	t.Helper()
	for _, limit := range []*time.Duration{&r.MapTimeout, &r.BootTimeout, &r.LoadTimeout, &r.EntryTimeout, &r.IdleTimeout} {
		*limit = cmp.Or(*limit, hang.Limit)
	}
	tg, err := target.Open(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	tr := ptrace.NewTracer()
	defer tr.Close()
	return inject.Inject(context.Background(), tg, tr, r)
}

// library returns a payload of the tests.
func library(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(victim.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lineOf returns the rest of the first line that begins with a word.
func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}
