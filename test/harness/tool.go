package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

// A Run is one run of the tool.
type Run struct {
	Code   session.ExitCode
	Stdout string
	Stderr string
	Took   time.Duration
	Trace  string // path

	Summary report.Summary // of a recording
}

// text is output that is looked at while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *text) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *text) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// A Recording is a run of the tool that is under way.
type Recording struct {
	run            Run
	cmd            *exec.Cmd
	stdout, stderr text
	ended          chan struct{}
	err            error
	began          time.Time
}

// Tool runs the built tool.
func Tool(t testing.TB, args ...string) Run {
	t.Helper()
	return begin(t, args...).Wait(t)
}

func begin(t testing.TB, args ...string) *Recording {
	t.Helper()
	r := &Recording{cmd: exec.Command(Artefact(t, "rtl-attach"), args...), ended: make(chan struct{}), began: time.Now()}
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	return r
}

// Wait returns when the tool has ended.
func (r *Recording) Wait(t testing.TB) Run {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(hang.Limit):
		_ = r.cmd.Process.Kill()
		<-r.ended
		t.Fatalf("%v: no end after %v\n%s", r.cmd.Args, hang.Limit, r.stderr.String())
	}
	var failed *exec.ExitError
	if r.err != nil && !errors.As(r.err, &failed) {
		t.Fatal(r.err)
	}
	run := r.run
	run.Code, run.Took = session.ExitCode(r.cmd.ProcessState.ExitCode()), time.Since(r.began)
	run.Stdout, run.Stderr = r.stdout.String(), r.stderr.String()
	return run
}

// Says waits until the tool has said so.
func (r *Recording) Says(t testing.TB, text string) {
	t.Helper()
	Until(t, "the tool says "+text, func() bool { return strings.Contains(r.stderr.String(), text) })
}

// Trace is the path of the trace that is being written.
func (r *Recording) Trace() string { return r.run.Trace }

// Kill ends the tool as a crash would.
func (r *Recording) Kill() {
	_ = r.cmd.Process.Kill()
	<-r.ended
}

// Begin starts a recording of p.
func (p *Process) Begin(t testing.TB, args ...string) *Recording {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace.db")
	r := begin(t, append([]string{"record", "--json", "-v", "-p", strconv.Itoa(p.PID), "-o", trace}, args...)...)
	r.run.Trace = trace
	return r
}

// TryRecord records p for so long, and returns whatever came of it.
func (p *Process) TryRecord(t testing.TB, d time.Duration, args ...string) Run {
	t.Helper()
	return p.Begin(t, append([]string{"-d", d.String()}, args...)...).Wait(t)
}

// Record makes a recording that has to succeed.
func (p *Process) Record(t testing.TB, d time.Duration, args ...string) Run {
	t.Helper()
	return p.Begin(t, append([]string{"-d", d.String()}, args...)...).MustRecord(t)
}

// RecordLast makes a recording that has to succeed, for so long at least and until
// the workload has dispatched so many more times, however few a busy machine lets it.
func (p *Process) RecordLast(t testing.TB, d time.Duration, dispatches int, args ...string) Run {
	t.Helper()
	r := p.Begin(t, args...)
	r.await(t, "✓ attached")
	over, enough := time.Now().Add(d), p.Dispatches(t, dispatches)
	Until(t, "the workload has dispatched enough", func() bool { return time.Now().After(over) && enough() })
	_ = r.cmd.Process.Signal(os.Interrupt) // if it has ended, MustRecord says how
	return p.MustRecordLast(t, r)
}

// MustRecordLast waits for the end of a recording that has to succeed. It ends the
// workload as soon as the tool has detached: it would fill the log with what nobody
// looks at.
func (p *Process) MustRecordLast(t testing.TB, r *Recording) Run {
	t.Helper()
	r.await(t, "✓ detached")
	p.StillAlive(t)
	p.askToQuit(t)
	return r.MustRecord(t)
}

// await waits until the tool has said something, or ended.
func (r *Recording) await(t testing.TB, words string) {
	t.Helper()
	Until(t, "the tool says "+words, func() bool {
		select {
		case <-r.ended:
			return true
		default:
			return strings.Contains(r.stderr.String(), words)
		}
	})
}

// MustRecord waits for the end of a recording that has to succeed.
func (r *Recording) MustRecord(t testing.TB) Run {
	t.Helper()
	run := r.Wait(t)
	run.MustBe(t, session.OK)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	return run
}

// Decode reads the summary that a recording has printed.
func (r *Run) Decode() error {
	if err := json.Unmarshal([]byte(r.Stdout), &r.Summary); err != nil {
		return fmt.Errorf("summary: %w\n%s", err, r.Stdout)
	}
	return nil
}

// MustBe fails the test for any other exit code.
func (r Run) MustBe(t testing.TB, code session.ExitCode) {
	t.Helper()
	if r.Code != code {
		t.Fatalf("the tool ended with %d, not %d\n%s", r.Code, code, r.Stderr)
	}
}

// Status asks the tool what is in p.
func (p *Process) Status(t testing.TB) session.Status {
	t.Helper()
	run := Tool(t, "status", "--json", strconv.Itoa(p.PID))
	run.MustBe(t, session.OK)
	var st session.Status
	if err := json.Unmarshal([]byte(run.Stdout), &st); err != nil {
		t.Fatalf("status: %v\n%s", err, run.Stdout)
	}
	return st
}

// Drains waits until the recorder has mapped the ring: the session is active before.
func (r *Recording) Drains(t testing.TB) {
	t.Helper()
	Until(t, "the recorder has the ring", func() bool {
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", r.cmd.Process.Pid))
		return strings.Contains(string(maps), "rtl-ring")
	})
}

// Interrupt is Ctrl-C, Stop what SIGSTOP does, Continue its end.
func (r *Recording) Interrupt(t testing.TB) { r.signal(t, syscall.SIGINT) }
func (r *Recording) Stop(t testing.TB)      { r.signal(t, syscall.SIGSTOP) }
func (r *Recording) Continue(t testing.TB)  { r.signal(t, syscall.SIGCONT) }

func (r *Recording) signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) { // how it ended is seen
		t.Fatal(err)
	}
}
