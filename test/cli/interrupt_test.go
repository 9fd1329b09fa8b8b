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
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestToolInterruptedAnytime: a signal that asks the tool to end, at any moment:
// it detaches before it ends, and says with its code what it has got.
func TestToolInterruptedAnytime(t *testing.T) {
	whole := measured(t)
	signals := []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE}
	codes := map[int]int{}
	n := testenv.Times(8, 100)
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
	signal := time.AfterFunc(after, func() { _ = r.Cmd.Process.Signal(sig) })
	code := r.Exit(t)
	signal.Stop()
	// Before it has set up its handlers it dies of the signal, and has done nothing.
	untouched := code == -1 && r.Stderr.String() == ""
	if !untouched && !slices.Contains([]int{0, 1, 7}, code) {
		t.Errorf("exit code %d\n%s", code, r.Stderr.String())
	}
	if st := s.status(t); st.Resident && st.State != "dormant" && st.State != "idle" {
		t.Errorf("%v after %v, exit code %d: left %s\n%s", sig, after, code, st.State, r.Stderr.String())
	}
	if _, err := os.Stat(r.Trace); (err == nil) != (code == 0 || code == 7) {
		t.Errorf("exit code %d, trace: %v\n%s", code, err, r.Stderr.String())
	}
	s.unharmed(t)
	return code
}

// TestSummaryInterrupted: a signal after the detach ends the tool at once, even if no process reads
// the summary, and the tool does not report a failed detach.
func TestSummaryInterrupted(t *testing.T) {
	s := stress(t)
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		trace := filepath.Join(t.TempDir(), sig.String()+".db")
		r := newRun(t, trace, "-p", strconv.Itoa(s.pid), "-d", "1h", "-o", trace)
		r.Cmd.Stdout = harness.FullPipe(t)
		r.Start(t)
		r.Says(t, "attached")
		recorded(t, s)
		r.Interrupt(t)
		r.Says(t, "stopped early")
		r.Signal(t, sig)
		r.MustExit(t, 0)
		said := r.Stderr.String()
		if strings.Count(said, "detaching   ") != 1 || !strings.Contains(said, "the trace is saved: rtl-attach report "+trace) {
			t.Errorf("%v:\n%s", sig, said)
		}
		if sum := r.ReadSummary(t); sum.Coverage.Timed == 0 {
			t.Errorf("nothing in the trace: %+v", sum.Coverage)
		}
	}
	s.unharmed(t)
	end(t, s)
}
