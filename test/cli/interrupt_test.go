package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// TestToolInterruptedAnytime: a signal that asks the tool to end, at any moment:
// it detaches before it ends, and says with its code what it has got.
func TestToolInterruptedAnytime(t *testing.T) {
	whole := measured(t)
	signals := []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE}
	codes := map[int]int{}
	n := times(8, 100)
	for i := 0; i < n; {
		s := serve(t)
		before := s.inventory(t)
		for range min(2, n-i) {
			after := momentOf(i, whole)
			sig := signals[i%len(signals)]
			i++
			t.Logf("%d: %v after %v", i, sig, after)
			codes[interruptOnce(t, s, sig, after)]++
			if t.Failed() {
				return
			}
		}
		s.again(t)
		s.onlyDormant(t, before)
		end(t, s)
	}
	t.Logf("exit codes: %v", codes)
}

func interruptOnce(t *testing.T, s *subject, sig unix.Signal, after time.Duration) int {
	t.Helper()
	r := s.record(t, killWindow, "--set", "RTL_RECORDER_TIMEOUT_MS=60000") // it must not need that
	signal := time.AfterFunc(after, func() { _ = r.cmd.Process.Signal(sig) })
	code := r.wait(t)
	signal.Stop()
	// Before it has set up its handlers it dies of the signal, and has done nothing.
	untouched := code == -1 && r.stderr.Len() == 0
	if !untouched && !slices.Contains([]int{0, 1, 7}, code) {
		t.Errorf("exit code %d\n%s", code, r.stderr.String())
	}
	if st := s.status(t); st.Resident && st.State != "dormant" && st.State != "idle" {
		t.Errorf("%v after %v, exit code %d: left %s\n%s", sig, after, code, st.State, r.stderr.String())
	}
	if _, err := os.Stat(r.trace); (err == nil) != (code == 0 || code == 7) {
		t.Errorf("exit code %d, trace: %v\n%s", code, err, r.stderr.String())
	}
	s.unharmed(t)
	return code
}

// TestSummaryInterrupted: a signal after the detach ends the tool at once, though nobody
// takes its summary, and is not called a detach.
func TestSummaryInterrupted(t *testing.T) {
	s := stress(t)
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		trace := filepath.Join(t.TempDir(), sig.String()+".db")
		r := newRun(t, trace, "-p", strconv.Itoa(s.pid), "-o", trace)
		r.cmd.Stdout = harness.FullPipe(t)
		r.start(t)
		r.saying.await(t, "attached")
		recorded(t, s)
		interrupt(t, r, unix.SIGINT)
		r.saying.await(t, "stopped early")
		interrupt(t, r, sig)
		r.expect(t, 0)
		said := r.stderr.String()
		if strings.Count(said, "^C detaching") != 1 || !strings.Contains(said, "the trace is saved: rtl-attach report "+trace) {
			t.Errorf("%v:\n%s", sig, said)
		}
		if sum := r.summary(t); sum.Coverage.Timed == 0 {
			t.Errorf("nothing in the trace: %+v", sum.Coverage)
		}
	}
	s.unharmed(t)
	end(t, s)
}

func interrupt(t *testing.T, r *run, sig unix.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
