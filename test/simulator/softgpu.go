// Package simulator starts workloads on the simulated GPU, for tests.
package simulator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Workload says what to start.
type Workload struct {
	Program string // in build/workloads
	Args    []string
	Env     []string // SOFTGPU_MODE=eager and such
}

// Target is a running workload.
type Target struct {
	PID  int
	Port int    // 0: the program has no HTTP server
	Log  string // path of the truth log

	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Scanner
	stderr strings.Builder
	exited chan struct{}
	err    error // of Wait, once exited is closed
	report Report
}

var ready = regexp.MustCompile(`^ready pid=(\d+)(?: port=(\d+))?`)

// Start starts a workload and returns when it has said that it is ready. The
// test's end kills it if it still runs.
func Start(t testing.TB, w Workload) *Target {
	t.Helper()
	program, simulator := testenv.Artefact(t, filepath.Join("workloads", w.Program)), testenv.Artefact(t, "libsoftgpu.so")
	ctx, cancel := context.WithTimeout(context.Background(), hang.Limit)
	v := &Target{
		Log:    filepath.Join(t.TempDir(), "truth.log"),
		t:      t,
		cmd:    exec.CommandContext(ctx, program, w.Args...),
		exited: make(chan struct{}),
	}
	v.cmd.Env = append(os.Environ(), "LD_PRELOAD="+simulator, "SOFTGPU_LOG="+v.Log)
	v.cmd.Env = append(v.cmd.Env, w.Env...)
	v.cmd.Stderr = &v.stderr
	v.stdin, _ = v.cmd.StdinPipe()
	out, _ := v.cmd.StdoutPipe()
	if err := v.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	v.stdout = bufio.NewScanner(out)
	v.stdout.Buffer(nil, 1<<20)
	t.Cleanup(func() {
		cancel() // kills it
		v.finish()
	})
	line := v.Line()
	m := ready.FindStringSubmatch(line)
	if m == nil {
		v.finish()
		t.Fatalf("%s is not ready: %q\n%s", w.Program, line, v.stderr.String())
	}
	v.PID, _ = strconv.Atoi(m[1])
	v.Port, _ = strconv.Atoi(m[2])
	return v
}

// Line returns the next line of the target's output, "" at its end.
func (v *Target) Line() string {
	if !v.stdout.Scan() {
		return ""
	}
	return v.stdout.Text()
}

// Ask writes a line to the target's standard input and returns its answer.
func (v *Target) Ask(line string) string {
	v.t.Helper()
	if _, err := fmt.Fprintln(v.stdin, line); err != nil {
		v.t.Fatalf("ask %q: %v\n%s", line, err, v.stderr.String())
	}
	return v.Line()
}

// Get asks the target's HTTP server.
func (v *Target) Get(path string) string {
	v.t.Helper()
	client := http.Client{Timeout: hang.Limit}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", v.Port, path))
	if err != nil {
		v.t.Fatalf("%s: %v\n%s", path, err, v.stderr.String())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		v.t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return string(body)
}

// finish reaps the target, once.
func (v *Target) finish() {
	select {
	case <-v.exited:
		return
	default:
	}
	for v.stdout.Scan() { // Wait closes the pipe: read it first
	}
	v.err = v.cmd.Wait()
	close(v.exited)
}

// Report is the last line that a workload prints.
type Report struct {
	Threads      []struct{ ID, Count uint64 }
	GraphKernels uint64 `json:"graph_kernels"` // serve only
	Requests     uint64 // serve only
}

// Report returns the target's report, once Wait has returned.
func (v *Target) Report() Report {
	return v.report
}

// Wait waits for the target's end, which must be orderly, and returns the
// counts that it printed last.
func (v *Target) Wait() simlog.Counts {
	v.t.Helper()
	last := ""
	for line := v.Line(); line != ""; line = v.Line() {
		last = line
	}
	v.finish()
	if v.err != nil {
		v.t.Fatalf("%s: %v: %s\n%s", v.cmd.Path, v.err, last, v.stderr.String())
	}
	if err := json.Unmarshal([]byte(last), &v.report); err != nil {
		v.t.Fatalf("%s: last line %q: %v", v.cmd.Path, last, err)
	}
	counts := simlog.Counts{}
	for _, thread := range v.report.Threads {
		counts[thread.ID] = thread.Count
	}
	return counts
}

// Signal sends a signal to the target.
func (v *Target) Signal(s os.Signal) {
	v.t.Helper()
	if err := v.cmd.Process.Signal(s); err != nil {
		v.t.Fatal(err)
	}
}

// Kill ends the target with SIGKILL and reaps it.
func (v *Target) Kill() {
	v.t.Helper()
	if err := v.cmd.Process.Kill(); err != nil {
		v.t.Fatal(err)
	}
	v.finish()
	var exit *exec.ExitError
	if !errors.As(v.err, &exit) {
		v.t.Fatalf("killed target: %v", v.err)
	}
}

// Truth returns the complete truth log. It fails the test on a violation.
func (v *Target) Truth() []*simlog.Record {
	v.t.Helper()
	records := v.RawTruth()
	if bad := simlog.Violations(records); len(bad) > 0 {
		v.t.Fatalf("%d violations, the first: %v", len(bad), bad[0])
	}
	return records
}

// RawTruth is Truth with violations.
func (v *Target) RawTruth() []*simlog.Record {
	v.t.Helper()
	if err := simlog.Wait(v.Log); err != nil {
		v.t.Fatal(err)
	}
	records, err := simlog.Read(v.Log)
	if err != nil {
		v.t.Fatal(err)
	}
	return records
}
