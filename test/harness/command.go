package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// quitTime is the time for a hanging tool to print its goroutines after SIGQUIT.
const quitTime = 10 * time.Second

// A shell's background jobs ignore SIGINT, and the tool would inherit that: then Interrupt ends no recording.
func init() {
	if signal.Ignored(syscall.SIGINT) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	}
}

// Output is the output of a process. It can be read while the process writes.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns what was printed so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Command is one process of the tool.
type Command struct {
	Cmd            *exec.Cmd // a test may change it before Start
	Trace          string    // path of the trace that it writes, if it records
	Stdout, Stderr Output
	Code           int           // of its end; -1: a signal ended it
	Took           time.Duration // from Start to its end

	ended chan struct{}
}

// NewCommand returns the tool with these arguments, not started.
func NewCommand(t testing.TB, args ...string) *Command {
	t.Helper()
	return NewProgram(t, "rtl-attach", args...)
}

// NewProgram returns a program that make has built, such as rtl-attach-fault, not started.
func NewProgram(t testing.TB, name string, args ...string) *Command {
	t.Helper()
	cmd := exec.Command(testenv.Artefact(t, name), args...)
	cmd.Env = append(os.Environ(), testenv.ToolDefaults()...)
	return Wrap(cmd)
}

// Wrap returns any command that runs the tool, such as nsenter(1), not started.
func Wrap(cmd *exec.Cmd) *Command {
	c := &Command{Cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &c.Stdout, &c.Stderr
	return c
}

// Start starts it. The end of the test kills it, if it still runs.
func (c *Command) Start(t testing.TB) {
	t.Helper()
	began := time.Now()
	if err := c.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.Cmd.Wait() // Exit tells how it ended
		c.Code, c.Took = c.Cmd.ProcessState.ExitCode(), time.Since(began)
		close(c.ended)
	}()
	t.Cleanup(c.Kill)
}

// Exit waits for its end and returns the exit code; -1: a signal ended it. One that
// hangs fails the test, and is killed.
func (c *Command) Exit(t testing.TB) int {
	t.Helper()
	select {
	case <-c.ended:
		return c.Code
	case <-time.After(hang.Limit):
	}
	_ = c.Cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-c.ended:
	case <-time.After(quitTime):
		c.Kill()
	}
	t.Errorf("%v: no end after %v\n%s", c.Cmd.Args, hang.Limit, c.Stderr.String())
	return c.Code
}

// MustExit waits for its end and fails the test unless the exit code is one of codes.
func (c *Command) MustExit(t testing.TB, codes ...int) {
	t.Helper()
	if got := c.Exit(t); !slices.Contains(codes, got) {
		t.Errorf("%v: exit code %d, want one of %v\n%s%s", c.Cmd.Args, got, codes, c.Stderr.String(), c.Stdout.String())
	}
}

// HasEnded reports whether the process has ended.
func (c *Command) HasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// HasSaid reports whether the process has written text to standard error.
func (c *Command) HasSaid(text string) bool { return strings.Contains(c.Stderr.String(), text) }

// Says waits until the process has written text to standard error.
func (c *Command) Says(t testing.TB, text string) {
	t.Helper()
	c.saysOrEnds(t, text)
	if !c.HasSaid(text) {
		t.Fatalf("%v ended with %d and has not said %q:\n%s", c.Cmd.Args, c.Code, text, c.Stderr.String())
	}
}

func (c *Command) saysOrEnds(t testing.TB, text string) {
	t.Helper()
	if !hang.Eventually(func() bool { return c.HasEnded() || c.HasSaid(text) }) {
		t.Fatalf("%v has not said %q after %v:\n%s", c.Cmd.Args, text, hang.Limit, c.Stderr.String())
	}
}

// Kill kills the process by SIGKILL, and waits for its end.
func (c *Command) Kill() {
	_ = c.Cmd.Process.Kill()
	<-c.ended
}

// Signal sends it a signal; one that has ended already is no error.
func (c *Command) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := c.Cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) { // a test sees how it ended
		t.Fatal(err)
	}
}

// Interrupt sends SIGINT.
func (c *Command) Interrupt(t testing.TB) { c.Signal(t, syscall.SIGINT) }

// Stop stops it by SIGSTOP.
func (c *Command) Stop(t testing.TB) { c.Signal(t, syscall.SIGSTOP) }

// Continue ends Stop.
func (c *Command) Continue(t testing.TB) { c.Signal(t, syscall.SIGCONT) }

// ReadSummary reads the summary of the trace that the process has written.
func (c *Command) ReadSummary(t testing.TB) *report.Summary {
	t.Helper()
	s, err := report.Summarize(c.Trace, 1)
	if err != nil {
		t.Fatalf("the trace cannot be read: %v\n%s", err, c.Stderr.String())
	}
	return s
}

// KeepEvidence copies the output and the trace to a folder, which stays after a failed test.
func (c *Command) KeepEvidence(t testing.TB) {
	if !t.Failed() {
		return
	}
	dir, err := os.MkdirTemp("", "rtl-evidence-")
	if err == nil {
		_ = os.WriteFile(filepath.Join(dir, "stderr"), []byte(c.Stderr.String()), 0o600)
		_ = os.Rename(c.Trace, filepath.Join(dir, "t.db"))
		t.Logf("evidence in %s", dir)
	}
}

// Wait waits for the end of the process and returns its result.
func (c *Command) Wait(t testing.TB) Run {
	t.Helper()
	return Run{
		Code: failure.ExitCode(c.Exit(t)), Stdout: c.Stdout.String(), Stderr: c.Stderr.String(),
		Took: c.Took, Trace: c.Trace,
	}
}

// Drains waits until the recorder has mapped the ring: the session is active before.
func (c *Command) Drains(t testing.TB) {
	t.Helper()
	Until(t, "the recorder has the ring", func() bool {
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.Cmd.Process.Pid))
		return strings.Contains(string(maps), "rtl-ring")
	})
}

// MustRecord waits for the end of a recording, which must succeed, and decodes its summary.
func (c *Command) MustRecord(t testing.TB) Run {
	t.Helper()
	run := c.Wait(t)
	run.MustBe(t, failure.OK)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	return run
}

// Begin starts a recording of p.
func (p *Process) Begin(t testing.TB, args ...string) *Command {
	t.Helper()
	c := p.NewRecording(t, args...)
	c.Start(t)
	return c
}

// NewRecording returns a recording of the process that is not started.
func (p *Process) NewRecording(t testing.TB, args ...string) *Command {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace.db")
	c := NewCommand(t, append([]string{"record", "--json", "-v", "-p", strconv.Itoa(p.PID), "-o", trace}, args...)...)
	c.Trace = trace
	return c
}
