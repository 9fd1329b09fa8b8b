package truth

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A server with workers: one trigger writes one trace, with all workers and one span of time; the end of a worker
// triggers, too, and what it ran before is in the trace; its successor is in the next one. What the filter leaves out is counted.
func TestFlightServer(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t, 3)
	fleet := f.Workers(t)
	r := f.Begin(t, "--keep-last", "2s", "--keep-size", "24MiB", "--trigger", "exit", "--kernel-exclude-regex", filtered)
	r.Says(t, "✓ attached    3/3")
	for _, w := range fleet {
		harness.Until(t, "it has dispatched for a while", w.Dispatches(t, 100))
	}
	asked := harness.Tool(t, "trigger", strconv.Itoa(fleet[1].PID))
	asked.MustBe(t, failure.OK)
	if got := strings.TrimSpace(asked.Stdout); got != partOf(r, 1) {
		t.Errorf("the tool names %s, the trace is %s", got, partOf(r, 1))
	}
	victim := fleet[2]
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.Says(t, "triggered   2   exit: pid "+strconv.Itoa(victim.PID))
	harness.Until(t, "it is replaced", func() bool { w := f.Workers(t)[2]; return w != nil && w.PID != victim.PID })
	others, threads := f.Workers(t), map[int]map[int64]bool{}
	for rank, w := range fleet {
		threads[rank] = w.TIDs()
	}
	r.Says(t, "takes the place of pid "+strconv.Itoa(victim.PID)+": recorded from now on")
	joined := others[2]
	harness.Until(t, "what its successor dispatches is recorded", func() bool { return joined.Status(t).Counters["timed_pool"] >= 100 })
	harness.Tool(t, "trigger", strconv.Itoa(fleet[0].PID)).MustBe(t, failure.OK)
	third, ofJoined := partOf(r, 3), joined.TIDs()
	r.Interrupt(t)
	r.Wait(t).MustBe(t, failure.SomeFailed)
	counts := f.Quit(t, others)
	for _, path := range []string{partOf(r, 1), partOf(r, 2)} {
		mustHaveOneSpan(t, path, victim.PID, joined.PID)
		for rank := range 2 {
			compareFiltered(t, path, rank, fleet[rank], counts[rank], threads[rank])
		}
		compareFiltered(t, path, 2, victim, nil, nil)
	}
	compareFiltered(t, third, 2, joined, counts[2], ofJoined)
}

// filtered are the kernels that compareFiltered expects not to be recorded.
const filtered = "silu_and_mul|rms_norm"

// compareFiltered compares a trigger's trace with the log of one worker. counts is nil if the worker was killed.
func compareFiltered(t *testing.T, path string, rank int, w *harness.Process, counts simlog.Counts, threads map[int64]bool) {
	t.Helper()
	log, part := w.Truth(t), harness.ReadParts(t, path)[w.PID]
	if counts != nil {
		log.MustHoldOnce(t, counts)
	}
	log.PID = w.PID
	c := harness.Compare(t, log)
	c.Excludes = regexp.MustCompile(filtered).MatchString
	inside := c.AddPart(traceOfWorker(t, path, rank, w.PID), part)
	c.Finish(threads)
	c.MustHaveRecorded(10)
	if c.Filtered == 0 {
		t.Errorf("%s: rank %d: nothing was filtered", path, rank)
	}
	t.Logf("%s: rank %d: %d kernels inside: %+v", filepath.Base(path), rank, inside, part)
}

// mustHaveOneSpan checks the window of a trace with three processes: the sessions have it in common, except for one whose
// process has ended in it, and for a fourth process, which may have joined before its end.
func mustHaveOneSpan(t *testing.T, path string, ended, joined int) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var windows, different, targets int
	err = db.QueryRow(`SELECT (SELECT count(*) FROM rtl_common WHERE end_ns > start_ns), (SELECT count(*) FROM rtl_session, rtl_common
			WHERE pid <> ? AND (window_start_ns <> start_ns AND pid <> ? OR window_start_ns < start_ns OR window_end_ns <> end_ns)),
		(SELECT count(*) FROM rtl_target WHERE pid <> ? AND (pid, start_ticks) IN (SELECT pid, start_ticks FROM rtl_session))`, ended, joined, joined).Scan(&windows, &different, &targets)
	if err != nil || windows != 1 || different != 0 || targets != 3 {
		t.Errorf("%s: %d common windows, %d sessions with another one, %d targets: %v", path, windows, different, targets, err)
	}
}
