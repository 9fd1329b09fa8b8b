package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/status"
)

const (
	attachTimeout = 20 * time.Second
	pollEvery     = 2 * time.Millisecond
)

// recorder is a running rtl-attach.
type recorder struct {
	cmd   *exec.Cmd
	said  bytes.Buffer
	trace string
	empty bool // there may be nothing to record
	done  chan error
}

// record starts a recording, and returns when the payload is in a state: active, or off between two windows.
func (r *runner) record(p *process, state string, flags ...string) (*recorder, error) {
	r.count++
	rec := &recorder{trace: filepath.Join(r.scratch, fmt.Sprintf("%d.db", r.count)), empty: state != "active", done: make(chan error, 1)}
	args := []string{"-q", "-p", strconv.Itoa(p.pid()), "-o", rec.trace, "--max-size", "0"}
	args = append(args, flags...)
	if r.payload != "" {
		args = append(args, "--payload", r.payload)
	}
	rec.cmd = exec.Command(filepath.Join(r.build, "rtl-attach"), args...)
	rec.cmd.Stderr = &rec.said
	if err := rec.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { rec.done <- rec.cmd.Wait() }()
	for end := time.Now().Add(attachTimeout); time.Now().Before(end); time.Sleep(pollEvery) {
		if st, err := status.Inspect(p.pid(), ""); err == nil && st.State == state && int(st.Recorder) == rec.cmd.Process.Pid {
			return rec, nil
		}
		select {
		case err := <-rec.done:
			return nil, fmt.Errorf("rtl-attach: %w: %s", err, rec.said.String())
		default:
		}
	}
	_, err := rec.stop()
	return nil, fmt.Errorf("rtl-attach's session did not become %s: %w", state, err)
}

func (r *recorder) cpuNS() float64 { return processCPU(r.cmd.Process.Pid) }

// stop ends the recording and returns the CPU time of the tool's whole life. The caller
// must remove the trace.
func (r *recorder) stop() (float64, error) {
	if err := r.cmd.Process.Signal(unix.SIGINT); err != nil {
		return 0, err
	}
	if err := <-r.done; err != nil && !(r.empty && r.cmd.ProcessState.ExitCode() == int(failure.NothingSeen)) {
		return 0, fmt.Errorf("rtl-attach: %w: %s", err, r.said.String())
	}
	s := r.cmd.ProcessState
	return float64(s.UserTime() + s.SystemTime()), nil
}

// peakBytes returns the most memory that the tool had resident; it has ended.
func (r *recorder) peakBytes() float64 {
	usage, ok := r.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return math.NaN()
	}
	return float64(usage.Maxrss) * 1024
}

// eventsLost returns how many events of threads were lost by the trace; NaN: not known.
func eventsLost(trace string) float64 {
	return queryNumber(trace, "SELECT total(events) FROM rtl_cpu_loss")
}

// queryNumber returns the number that a query of a trace returns; NaN: none.
func queryNumber(trace, query string) float64 {
	n := math.NaN()
	db, err := sql.Open("sqlite3", "file:"+trace+"?mode=ro") // the driver comes with tracedb
	if err != nil {
		return n
	}
	defer db.Close()
	if db.QueryRow(query).Scan(&n) != nil {
		return math.NaN()
	}
	return n
}

// recordedShare returns the share of the last session's dispatches that have times in the
// trace; NaN: not known.
func recordedShare(p *process, trace string) float64 {
	st, err := status.Inspect(p.pid(), "")
	if err != nil || st.Counters["dispatches"] == 0 {
		return math.NaN()
	}
	return queryNumber(trace, "SELECT count(*) FROM rtl_dispatch") / float64(st.Counters["dispatches"])
}
