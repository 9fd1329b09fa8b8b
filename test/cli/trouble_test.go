package cli

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// TestTargetExecutes: an exec removes everything of this tool. The recorder says so at once, and
// does not try to detach.
func TestTargetExecutes(t *testing.T) {
	t.Run("recording", func(t *testing.T) { executes(t, 100) })
	t.Run("just attached", func(t *testing.T) { executes(t, 0) })
}

// executes: the target executes another program after so many packets more;
// with 0 the recorder may not have opened its ring yet.
func executes(t *testing.T, packets int) {
	f := startForker(t)
	r := f.record(t, hang.Limit)
	r.Says(t, "attached")
	from := f.ran(t)
	if !hang.Eventually(func() bool { return f.ran(t) >= from+packets }) {
		t.Error("the target makes no progress")
	}
	if said := f.tell(t, "x"); !strings.HasPrefix(said, "ready") {
		t.Fatalf("the new program said %q", said)
	}
	r.MustExit(t, 5)
	if said := r.Stderr.String(); !strings.Contains(said, "executed another program") {
		t.Errorf("the recorder does not say what happened:\n%s", said)
	}
	r.ReadSummary(t)
	if st := f.status(t); st.Resident {
		t.Errorf("after the exec: %+v", st)
	}
	if !hang.Eventually(func() bool { return f.ran(t) > 0 }) {
		t.Error("the new program makes no progress")
	}
	before := f.inventory(t)
	f.record(t, killWindow).MustExit(t, 7) // barrier packets are no kernels
	f.onlyDormant(t, before)
	_ = f.in.Close()
	if status := f.ended(t); status != 0 {
		t.Errorf("the target ended with %#x", status)
	}
}

// TestTargetStopped: SIGSTOP while recording. Nothing can be detached from a
// stopped process: the tool says so and ends, and the payload detaches by
// itself once the target continues. The tool does not continue it.
func TestTargetStopped(t *testing.T) {
	s := stress(t)
	before := s.inventory(t)
	r := s.record(t, hang.Limit, "--set=RTL_RECORDER_TIMEOUT_MS=10000")
	stopRecorded(t, s, r)
	r.MustExit(t, 6)
	for _, words := range []string{"stopped by a job-control signal", "kill -CONT", "still attached"} {
		if said := r.Stderr.String(); !strings.Contains(said, words) {
			t.Errorf("the recorder does not say %q:\n%s", words, said)
		}
	}
	if sum := r.ReadSummary(t); sum.Coverage.Timed == 0 {
		t.Errorf("nothing in the trace: %+v", sum.Coverage)
	}
	if state := statusOf(s.pid, strconv.Itoa(s.pid))["State"]; !strings.HasPrefix(state, "T") {
		t.Errorf("the target is %s, it was to stay stopped", state)
	}
	s.signal(t, unix.SIGCONT)
	s.atRest(t)
	s.unharmed(t)
	s.onlyDormant(t, before)
	s.again(t)
	end(t, s)
}

// stopRecorded stops a target under a recording, which then is to end.
func stopRecorded(t *testing.T, s *subject, r *run) {
	t.Helper()
	r.Says(t, "attached")
	recorded(t, s)
	s.signal(t, unix.SIGSTOP)
	if !hang.Eventually(func() bool { return strings.HasPrefix(s.field("State"), "T") }) {
		t.Errorf("it is %s", s.field("State"))
	}
	r.Signal(t, unix.SIGINT)
}

// TestTwoTroubles: of two errors at once the tool prints both, and returns the code of the worse.
func TestTwoTroubles(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	s := stress(t)
	trace := filepath.Join(t.TempDir(), "t.db")
	r := newRun(t, trace, "-p", strconv.Itoa(s.pid), "-d", hang.Limit.String(), "-o", trace, "--set", "RTL_RECORDER_TIMEOUT_MS=10000")
	r.Cmd.Stdout = full
	r.Start(t)
	stopRecorded(t, s, r)
	r.MustExit(t, 6)
	for _, words := range []string{"cannot show the summary", "no space left", "could not detach from pid", "kill -CONT"} {
		if said := r.Stderr.String(); !strings.Contains(said, words) {
			t.Errorf("the recorder does not say %q:\n%s", words, said)
		}
	}
	s.signal(t, unix.SIGCONT)
	s.atRest(t)
	s.unharmed(t)
	end(t, s)
}

// TestDiskFull while recording: the trace says what it is, the target is let go.
func TestDiskFull(t *testing.T) {
	small := t.TempDir()
	if err := unix.Mount("none", small, "tmpfs", 0, "size=70M"); err != nil {
		testenv.Skip(t, "a small filesystem cannot be mounted: "+err.Error())
	}
	defer func() { _ = unix.Unmount(small, unix.MNT_DETACH) }()
	s := stress(t)
	before := s.inventory(t)
	r := s.record(t, hang.Limit, "-o", filepath.Join(small, "t.db"))
	r.Says(t, "attached")
	if !hang.Eventually(func() bool { return isCompleteToSomeMoment(t, filepath.Join(small, "t.db")) }) {
		t.Error("the trace does not say how far it is complete")
	}
	fill(t, filepath.Join(small, "fill"))
	r.MustExit(t, 1)
	for _, words := range []string{"not complete", "free some space", "target  detached"} {
		if said := r.Stderr.String(); !strings.Contains(said, words) {
			t.Errorf("the recorder does not say %q:\n%s", words, said)
		}
	}
	for _, words := range []string{"disk full: ", " missing at the end of the trace"} {
		if said := r.Stderr.String(); !strings.Contains(said, words) {
			t.Errorf("the recorder does not say %q:\n%s", words, said)
		}
	}
	if st := s.status(t); st.State != "dormant" {
		t.Errorf("left %+v", st)
	}
	saysDiskFull(t, filepath.Join(small, "t.db"))
	s.unharmed(t)
	s.onlyDormant(t, before)
	end(t, s)
}

// isCompleteToSomeMoment looks into a trace that is being recorded.
func isCompleteToSomeMoment(t *testing.T, trace string) (complete bool) {
	t.Helper()
	db, err := tracedb.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM rtl_session WHERE recorded_until_ns > window_start_ns").Scan(&complete); err != nil {
		t.Fatal(err)
	}
	return complete
}

// saysDiskFull: the trace has why it ends, up to when it is complete, and what is missing.
func saysDiskFull(t *testing.T, trace string) {
	t.Helper()
	db, err := tracedb.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var reason, cause string
	var complete, records int64
	err = db.QueryRow(`SELECT s.end_reason, s.recorded_until_ns - s.window_start_ns, l.cause, l.records
		FROM rtl_session s JOIN rtl_loss l ON l.session_id = s.id AND l.from_ns = s.recorded_until_ns AND l.until_ns = s.detached_ns
		WHERE s.ended_ns IS NULL`).Scan(&reason, &complete, &cause, &records)
	if err != nil || reason != tracedb.EndDiskFull || cause != tracedb.CauseDiskFull || complete <= 0 || records <= 0 {
		t.Errorf("the trace says %q, complete for %d ns, %d records missing: %q: %v", reason, complete, records, cause, err)
	}
}

// fill writes until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	for err = nil; err == nil; { // the last bytes, too
		_, err = io.WriteString(f, strings.Repeat("x", 512))
	}
}
