package faults

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// A run is one process of the tool.
type run struct {
	cmd            *exec.Cmd
	trace          string
	stdout, stderr said
	code           int    // -1: killed
	first          string // what a first try said, which recorded nothing
}

// said is output that may be looked at while it is written.
type said struct {
	sync.Mutex
	b bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.Lock()
	defer s.Unlock()
	return s.b.String()
}

// record attaches to a process with the tool, and returns when it has ended.
// On a starved machine the victim may launch nothing in so short a time: then
// for longer.
func record(t *testing.T, pid int, args ...string) *run {
	t.Helper()
	r := recording(t, "rtl-attach", pid, args...)
	if r.wait(t) == nothingSeen {
		first := r.stderr.String()
		r = recording(t, "rtl-attach", pid, append(args, "-d", "5s")...)
		r.first = first
		r.wait(t)
	}
	return r
}

const nothingSeen = int(session.NothingSeen)

// goneWell are the exit codes of a recording so short that a starved victim may launch
// nothing in it.
var goneWell = []int{0, nothingSeen}

// recording starts a tool that attaches.
func recording(t *testing.T, tool string, pid int, args ...string) *run {
	t.Helper()
	r := prepared(t, tool, pid, args...)
	r.start(t)
	return r
}

// prepared is such a tool before its start.
func prepared(t *testing.T, tool string, pid int, args ...string) *run {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "t.db")
	r := newRun(t, tool, append([]string{"-p", strconv.Itoa(pid), "-d", "300ms", "-o", trace, "-v"}, args...)...)
	r.trace = trace
	return r
}

func newRun(t *testing.T, tool string, args ...string) *run {
	t.Helper()
	r := &run{cmd: exec.Command(artefact(t, tool), args...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	return r
}

func (r *run) start(t *testing.T) {
	t.Helper()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
}

// wait returns the exit code; -1: killed.
func (r *run) wait(t *testing.T) int {
	t.Helper()
	hung := time.AfterFunc(hang.Limit, func() { _ = r.cmd.Process.Signal(unix.SIGQUIT) }) // it says where it is
	killed := time.AfterFunc(hang.Limit+10*time.Second, func() { _ = r.cmd.Process.Kill() })
	_ = r.cmd.Wait()
	killed.Stop()
	if !hung.Stop() {
		t.Errorf("the tool hung and was killed\n%s", r.stderr.String())
	}
	r.code = r.cmd.ProcessState.ExitCode()
	return r.code
}

// attaches waits until the tool says that it is attached.
func (r *run) attaches() bool {
	return hang.Eventually(func() bool { return strings.Contains(r.stderr.String(), "✓ attached") })
}

// ok wants a recording that has worked, and returns how many dispatches its
// trace holds.
func (r *run) ok(t *testing.T) int64 {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr.String())
	}
	s, err := report.Summarize(r.trace, 1)
	if err != nil {
		t.Fatalf("the trace cannot be read: %v\n%s", err, r.stderr.String())
	}
	if s.Coverage.Timed == 0 {
		t.Errorf("no dispatch in the trace: %+v\n%s", s.Coverage, r.stderr.String())
	}
	return s.Coverage.Timed
}

// artefact is the path of something that make has built.
func artefact(t testing.TB, name string) string {
	t.Helper()
	build := os.Getenv("RTL_BUILD")
	if build == "" {
		build = "../../build"
	}
	path, err := filepath.Abs(filepath.Join(build, name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v (run: make)", err)
	}
	return path
}

// injected runs the injector alone. A starved machine gets more time than the injector
// would give it, unless the request says how much.
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

// library is a payload of the tests'.
func library(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(victim.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lineOf is the rest of the first line that begins with a word.
func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}
