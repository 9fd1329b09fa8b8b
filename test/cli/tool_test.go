package cli

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// quickly is how long the payload waits for a dead recorder: where one dies.
// Under load a live one may seem dead for as long.
const quickly = "--set=RTL_RECORDER_TIMEOUT_MS=500"

// A run is one process of the tool.
type run struct{ *harness.Command }

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
	r.Start(t)
	return r
}

// newRun returns the tool with these arguments, not started.
func newRun(t testing.TB, trace string, args ...string) *run {
	t.Helper()
	r := &run{harness.NewCommand(t, args...)}
	r.Trace = trace
	return r
}

// again makes a short recording, which has to succeed. A target that gets no processor may
// dispatch nothing in it: 7.
func (s *subject) again(t testing.TB) *run {
	t.Helper()
	r := s.record(t, killWindow)
	r.MustExit(t, 0, 7)
	return r
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
	out, err := exec.Command(testenv.Artefact(t, "rtl-attach"), "status", "--json", strconv.Itoa(s.pid)).Output()
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
