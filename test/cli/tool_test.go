package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

// quickly is how long the payload waits for a dead recorder: where one dies.
// Under load a live one may seem dead for as long.
const quickly = "--set=RTL_RECORDER_TIMEOUT_MS=500"

// A run is one process of the tool.
type run struct {
	cmd            *exec.Cmd
	trace          string
	stdout, stderr bytes.Buffer
	saying         *words
	code           int
}

// record starts a recording of s.
func (s *subject) record(t testing.TB, duration time.Duration, args ...string) *run {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "t.db")
	return tool(t, trace, append([]string{
		"-p", strconv.Itoa(s.pid), "-d", duration.String(), "-o", trace,
		"--json",
	}, args...)...)
}

func tool(t testing.TB, trace string, args ...string) *run {
	t.Helper()
	r := newRun(t, trace, args...)
	r.start(t)
	return r
}

func newRun(t testing.TB, trace string, args ...string) *run {
	r := &run{cmd: exec.Command(artefact(t, "rtl-attach"), args...), trace: trace}
	r.saying = newWords(&r.stderr)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, r.saying
	return r
}

func (r *run) start(t testing.TB) {
	t.Helper()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
}

// wait returns the exit code; -1: killed.
func (r *run) wait(t testing.TB) int {
	t.Helper()
	hung := time.AfterFunc(hang.Limit, func() { _ = r.cmd.Process.Kill() })
	_ = r.cmd.Wait()
	if !hung.Stop() {
		t.Errorf("the tool hung and was killed\n%s", r.stderr.String())
	}
	r.code = r.cmd.ProcessState.ExitCode()
	return r.code
}

// expect waits and wants one of these exit codes.
func (r *run) expect(t testing.TB, codes ...int) {
	t.Helper()
	if got := r.wait(t); !slices.Contains(codes, got) {
		t.Errorf("exit code %d, want %v\n%s%s", got, codes, r.stderr.String(), r.stdout.String())
	}
}

// again makes a short recording, which has to succeed. A target that gets no processor may
// dispatch nothing in it: 7.
func (s *subject) again(t testing.TB) *run {
	t.Helper()
	r := s.record(t, killWindow)
	r.expect(t, 0, 7)
	return r
}

// summary reads the trace.
func (r *run) summary(t testing.TB) *report.Summary {
	t.Helper()
	s, err := report.Summarize(r.trace, 1)
	if err != nil {
		t.Fatalf("the trace cannot be read: %v\n%s", err, r.stderr.String())
	}
	return s
}

// status asks the tool what is in the target.
func (s *subject) status(t testing.TB) (st struct {
	Resident bool
	State    string
	Recorder int `json:"recorder_pid"`
	Sessions int
	LastEnd  string `json:"last_end"`
	Counters map[string]uint64
},
) {
	t.Helper()
	out, err := exec.Command(artefact(t, "rtl-attach"), "status", "--json", strconv.Itoa(s.pid)).Output()
	if err == nil {
		err = json.Unmarshal(out, &st)
	}
	if err != nil {
		t.Fatalf("status: %v\n%s", err, out)
	}
	return st
}

// written waits until dispatches are in the ring: the payload's worker shows
// them to the recorder at the end of each of its rounds.
func (s *subject) written(t testing.TB) {
	t.Helper()
	round := ^uint64(0)
	if !hang.Eventually(func() bool {
		c := s.status(t).Counters
		if round == ^uint64(0) && c["timed_pool"]+c["timed_app"] > 0 {
			round = c["worker_rounds"]
		}
		return round != ^uint64(0) && c["worker_rounds"] > round
	}) {
		t.Errorf("no dispatch is recorded: %v", s.status(t).Counters)
	}
}

// atRest waits until no session is active in the target.
func (s *subject) atRest(t testing.TB) {
	t.Helper()
	if !hang.Eventually(func() bool {
		st := s.status(t)
		return !st.Resident || st.State == "dormant" || st.State == "idle"
	}) {
		t.Errorf("the payload did not detach by itself: %+v", s.status(t))
	}
}

// words keeps what a process says and lets others wait for it.
type words struct {
	to   *bytes.Buffer
	news chan struct{}
	lock chan struct{}
}

func newWords(to *bytes.Buffer) *words {
	return &words{to: to, news: make(chan struct{}, 1), lock: make(chan struct{}, 1)}
}

func (w *words) Write(p []byte) (int, error) {
	w.lock <- struct{}{}
	n, err := w.to.Write(p)
	<-w.lock
	select {
	case w.news <- struct{}{}:
	default:
	}
	return n, err
}

// await waits until something was said.
func (w *words) await(t testing.TB, text string) {
	t.Helper()
	for deadline := time.After(hang.Limit); ; {
		if w.has(text) {
			return
		}
		select {
		case <-w.news:
		case <-deadline:
			t.Fatalf("it never said %q:\n%s", text, w.said())
		}
	}
}

func (w *words) has(text string) bool { return strings.Contains(w.said(), text) }

func (w *words) said() string {
	w.lock <- struct{}{}
	defer func() { <-w.lock }()
	return w.to.String()
}

// keepEvidence moves the files of a failure where they survive the test.
func keepEvidence(t testing.TB, r *run) {
	if !t.Failed() {
		return
	}
	dir, err := os.MkdirTemp("", "rtl-cli-evidence-")
	if err == nil {
		_ = os.WriteFile(filepath.Join(dir, "stderr"), r.stderr.Bytes(), 0o600)
		_ = os.Rename(r.trace, filepath.Join(dir, "t.db"))
		t.Logf("evidence in %s", dir)
	}
}
