package harness

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/status"
)

// Run is one run of the tool.
type Run struct {
	Code   failure.ExitCode
	Stdout string
	Stderr string
	Took   time.Duration
	Trace  string // path

	Summary report.Summary // of a recording
}

// Tool runs the built tool.
func Tool(t testing.TB, args ...string) Run {
	t.Helper()
	c := NewCommand(t, args...)
	c.Start(t)
	return c.Wait(t)
}

// TryRecord records p for a time, and returns the result, also of a failure.
func (p *Process) TryRecord(t testing.TB, d time.Duration, args ...string) Run {
	t.Helper()
	return p.Begin(t, append([]string{"-d", d.String()}, args...)...).Wait(t)
}

// Record makes a recording that must succeed.
func (p *Process) Record(t testing.TB, d time.Duration, args ...string) Run {
	t.Helper()
	return p.Begin(t, append([]string{"-d", d.String()}, args...)...).MustRecord(t)
}

// RecordUntil makes a recording that must succeed, for at least a time and until the workload has
// made a number of further dispatches, even on a busy machine.
func (p *Process) RecordUntil(t testing.TB, d time.Duration, dispatches int, args ...string) Run {
	t.Helper()
	return p.recordUntil(t, d, dispatches, args...).MustRecord(t)
}

// TryRecordUntil is RecordUntil for a recording that may end with another exit code.
func (p *Process) TryRecordUntil(t testing.TB, d time.Duration, dispatches int, args ...string) Run {
	t.Helper()
	return p.recordUntil(t, d, dispatches, args...).Wait(t)
}

// RecordLast is RecordUntil, and ends the workload.
func (p *Process) RecordLast(t testing.TB, d time.Duration, dispatches int, args ...string) Run {
	t.Helper()
	return p.MustRecordLast(t, p.recordUntil(t, d, dispatches, args...))
}

func (p *Process) recordUntil(t testing.TB, d time.Duration, dispatches int, args ...string) *Command {
	t.Helper()
	r := p.Begin(t, args...)
	r.saysOrEnds(t, "✓ attached")
	over, enough := time.Now().Add(d), p.Dispatches(t, dispatches)
	Until(t, "the workload has dispatched enough", func() bool { return time.Now().After(over) && enough() })
	r.Interrupt(t) // if it has ended, MustRecord says how
	return r
}

// MustRecordLast waits for the end of a recording that must succeed. It ends the workload as soon
// as the tool has detached, so that the log has no unused entries.
func (p *Process) MustRecordLast(t testing.TB, r *Command) Run {
	t.Helper()
	r.saysOrEnds(t, "✓ detached")
	p.StillAlive(t)
	p.askToQuit(t)
	return r.MustRecord(t)
}

// Decode reads the summary that a recording has printed.
func (r *Run) Decode() error {
	if err := json.Unmarshal([]byte(r.Stdout), &r.Summary); err != nil {
		return fmt.Errorf("summary: %w\n%s", err, r.Stdout)
	}
	return nil
}

// MustBe fails the test for any other exit code.
func (r Run) MustBe(t testing.TB, code failure.ExitCode) {
	t.Helper()
	if r.Code != code {
		t.Fatalf("the tool ended with %d, not %d\n%s", r.Code, code, r.Stderr)
	}
}

// Status returns the output of status for p.
func (p *Process) Status(t testing.TB) status.Status {
	t.Helper()
	run := Tool(t, "status", "--json", strconv.Itoa(p.PID))
	run.MustBe(t, failure.OK)
	var st status.Status
	if err := json.Unmarshal([]byte(run.Stdout), &st); err != nil {
		t.Fatalf("status: %v\n%s", err, run.Stdout)
	}
	return st
}
