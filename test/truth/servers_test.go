package truth

import (
	"cmp"
	"database/sql"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const workers = 8

// checkWorkers compares each worker with its sessions in the common trace.
func checkWorkers(t *testing.T, fleet map[int]*harness.Process, counts map[int]simlog.Counts, trace string) {
	t.Helper()
	for rank, w := range fleet {
		log := w.Truth(t)
		log.MustHoldOnce(t, counts[rank])
		log.PID = w.PID // in a container the simulator sees another one
		c := harness.Compare(t, log)
		c.Add(traceOfWorker(t, trace, rank, w.PID))
		c.Finish(w.TIDs())
		c.MustHaveRecorded(50)
	}
}

// traceOfWorker reads a worker's part of a trace. The worker numbers its GPU 0; in the simulator
// it is the rank-th GPU.
func traceOfWorker(t *testing.T, trace string, rank, pid int) *harness.Trace {
	t.Helper()
	tr := harness.ReadTraceOf(t, trace, pid)
	for id, q := range tr.Queues {
		if q.GPU != 0 {
			t.Errorf("the one GPU of pid %d is %d to it", pid, q.GPU)
		}
		q.GPU = int64(rank)
		tr.Queues[id] = q
	}
	for id, l := range tr.Launches {
		l.GPU += int64(rank)
		tr.Launches[id] = l
	}
	return tr
}

// byOutcome returns the processes of a summary by their outcomes.
func byOutcome(s report.Summary) map[tracedb.Outcome][]report.Process {
	found := map[tracedb.Outcome][]report.Process{}
	for _, p := range s.Processes {
		found[p.Outcome] = append(found[p.Outcome], p)
	}
	return found
}

// TestServer: with the pid of a front end the tool records all of its workers, each of which
// numbers its GPU 0, into one file.
func TestServer(t *testing.T) {
	f := harness.StartFleet(t, workers)
	run := f.RecordEach(t, time.Second, 200)
	fleet := f.Workers(t)
	counts := f.Quit(t, fleet)
	checkWorkers(t, fleet, counts, run.Trace)

	found := byOutcome(run.Summary)
	gpus := map[int64]bool{}
	for _, p := range found[tracedb.OutcomeRecorded] {
		if p.Dispatches == 0 || len(p.GPUs) != 1 || p.Rank == nil || fleet[int(*p.Rank)].PID != int(p.PID) {
			t.Fatalf("a worker: %+v", p)
		}
		gpus[p.GPUs[0]] = true
	}
	if len(found[tracedb.OutcomeRecorded]) != workers || len(gpus) != workers {
		t.Errorf("%d workers on %d GPUs: %+v", len(found[tracedb.OutcomeRecorded]), len(gpus), run.Summary.Processes)
	}
	for _, name := range []string{"frontend", "tokenizer"} {
		if !slices.ContainsFunc(found[tracedb.OutcomePassedOver], func(p report.Process) bool { return p.Command == name }) {
			t.Errorf("%s is not named as passed over: %+v", name, found)
		}
	}
	if !strings.Contains(run.Stderr, "tokenizer") || !strings.Contains(run.Stderr, "✓ attached    8/8") {
		t.Errorf("not said:\n%s", run.Stderr)
	}
	common(t, run)
}

// common checks the common window against the rows.
func common(t *testing.T, run harness.Run) {
	t.Helper()
	c := run.Summary.Common
	if c == nil {
		t.Fatal("no common window")
	}
	db, err := tracedb.Open(run.Trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var armed, detached, inside, all int64
	err = db.QueryRow(`SELECT (SELECT max(armed_ns) FROM rtl_session), (SELECT min(detached_ns) FROM rtl_session),
		(SELECT count(*) FROM rtl_dispatch WHERE start_ns >= ?1 AND start_ns + duration_ns <= ?2), (SELECT count(*) FROM rtl_dispatch)`,
		c.StartNS, c.EndNS).Scan(&armed, &detached, &inside, &all)
	if err != nil {
		t.Fatal(err)
	}
	if c.StartNS < armed || c.EndNS > detached || c.EndNS <= c.StartNS {
		t.Errorf("the common window %d..%d is not within what all recorded, %d..%d", c.StartNS, c.EndNS, armed, detached)
	}
	if c.Inside != inside || c.Outside != all-inside || inside == 0 {
		t.Errorf("%d kernels inside, %d outside; the rows say %d of %d", c.Inside, c.Outside, inside, all)
	}
	for _, g := range run.Summary.GPUs {
		if g.RecordedNS != c.EndNS-c.StartNS || g.BusyNS <= 0 || g.BusyNS > g.RecordedNS || g.BusyNS != busyNS(t, db, g.ID, c) {
			t.Errorf("GPU %+v within %d ns", g, c.EndNS-c.StartNS)
		}
	}
}

// busyNS returns how long a GPU was busy within the common window.
func busyNS(t *testing.T, db *sql.DB, gpu int64, c *report.Common) (sum int64) {
	t.Helper()
	rows, err := db.Query(`SELECT start, end FROM rocpd_op WHERE gpuId = ? ORDER BY start`, gpu)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	reached := c.StartNS
	for rows.Next() {
		var start, end int64
		if err := rows.Scan(&start, &end); err != nil {
			t.Fatal(err)
		}
		if start, end = max(start, reached), min(end, c.EndNS); end > start {
			sum, reached = sum+end-start, end
		}
	}
	return sum
}

// TestServerWorkerDies: the others' recordings are complete, the dead worker's is complete up to
// its death, and the worker that replaces it is recorded from the tool's attach on.
func TestServerWorkerDies(t *testing.T) {
	loseWorker(t, harness.StartFleet(t, workers))
}

func loseWorker(t *testing.T, f *harness.Fleet) {
	t.Helper()
	before := f.Workers(t)
	r := f.Begin(t)
	r.Says(t, "✓ attached    8/8")
	victim := before[3]
	harness.Until(t, "what the victim dispatches is recorded", func() bool { return victim.Status(t).Counters["timed_pool"] >= 50 })
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "it is replaced", func() bool {
		w := f.Workers(t)[3]
		return w != nil && w.PID != victim.PID
	})
	after := f.Workers(t)
	r.Says(t, "takes the place of pid "+strconv.Itoa(victim.PID)+": recorded from now on")
	harness.Until(t, "what its successor dispatches is recorded", func() bool { return after[3].Status(t).Counters["timed_pool"] >= 100 })
	r.Interrupt(t)
	run := r.Wait(t)
	run.MustBe(t, failure.SomeFailed)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	others := f.Workers(t)
	counts := f.Quit(t, others)
	checkWorkers(t, others, counts, run.Trace)

	log := victim.Truth(t)
	log.PID = victim.PID
	c := harness.Compare(t, log)
	c.Killed = true
	c.Add(traceOfWorker(t, run.Trace, 3, victim.PID))
	c.Finish(nil)
	c.MustHaveRecorded(20)

	found := byOutcome(run.Summary)
	exited, fresh := found[tracedb.OutcomeExited], found[tracedb.OutcomeJoined]
	if len(exited) != 1 || exited[0].PID != int64(victim.PID) || exited[0].ExitCode != int64(failure.TargetExited) ||
		!strings.Contains(exited[0].Detail, "into the common window") {
		t.Errorf("the dead worker: %+v", exited)
	}
	if len(fresh) != 1 || fresh[0].PID != int64(after[3].PID) || fresh[0].Rank == nil || *fresh[0].Rank != 3 || fresh[0].ExitCode != int64(failure.OK) ||
		!strings.Contains(fresh[0].Detail, "recorded from ") {
		t.Errorf("the new worker, pid %d: %+v", after[3].PID, fresh)
	}
	if n := len(found[tracedb.OutcomeRecorded]); n != workers-1 {
		t.Errorf("%d workers recorded: %+v", n, run.Summary.Processes)
	}
}

// TestServerGrows: a worker that the server starts during the recording is recorded from the tool's attach on; with a schedule it is not,
// and the tool says so.
func TestServerGrows(t *testing.T) {
	f := harness.StartFleet(t, 2)
	r := f.Begin(t)
	r.Says(t, "✓ attached    2/2")
	grow(t, f, 3)
	r.Says(t, "came to hold a GPU during the recording: recorded from now on")
	grown := f.Workers(t)[2]
	harness.Until(t, "what it dispatches is recorded", func() bool { return grown.Status(t).Counters["timed_pool"] >= 100 })
	r.Interrupt(t)
	run := r.Wait(t)
	run.MustBe(t, failure.OK)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	found := byOutcome(run.Summary)
	if joined := found[tracedb.OutcomeJoined]; len(joined) != 1 || joined[0].PID != int64(grown.PID) || len(found[tracedb.OutcomeRecorded]) != 2 {
		t.Errorf("%+v", run.Summary.Processes)
	}

	scheduled := f.Begin(t, "--schedule", "boottime:100ms:200ms:1000")
	scheduled.Says(t, "✓ attached    3/3")
	grow(t, f, 4)
	scheduled.Says(t, "it is not in the trace: the windows of a schedule begin with the recording")
	scheduled.Interrupt(t)
	scheduled.Wait(t)

	fleet := f.Workers(t)
	delete(fleet, 3)
	counts := f.Quit(t, fleet)
	checkWorkers(t, fleet, counts, run.Trace)
}

// grow has the server start a further worker, and returns when that many dispatch.
func grow(t *testing.T, f *harness.Fleet, workers int) {
	t.Helper()
	if _, err := f.Get("/grow"); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "a further worker is ready", func() bool { return len(f.Workers(t)) == workers })
}

// TestServerRefusal: the tool cannot attach to one worker, does not touch it, and records the
// others.
func TestServerRefusal(t *testing.T) {
	f := harness.StartFleet(t, 3)
	fleet := f.Workers(t)
	stopped := fleet[1]
	if err := syscall.Kill(stopped.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	delete(fleet, 1)
	r := f.Begin(t)
	r.EndAfter(t, 300*time.Millisecond, 200, fleet)
	run := r.Wait(t)
	if err := syscall.Kill(stopped.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	run.MustBe(t, failure.SomeFailed)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	stopped.StillAlive(t)
	if stopped.Status(t).Resident {
		t.Error("the refused worker has a payload")
	}
	counts := f.Quit(t, fleet)
	checkWorkers(t, fleet, counts, run.Trace)
	found := byOutcome(run.Summary)
	refused := found[tracedb.OutcomeRefused]
	if len(refused) != 1 || refused[0].PID != int64(stopped.PID) || refused[0].ExitCode != int64(failure.NotPermitted) {
		t.Errorf("refused: %+v", refused)
	}
	if len(found[tracedb.OutcomeRecorded]) != 2 {
		t.Errorf("%+v", run.Summary.Processes)
	}
}

// TestServerChosenPIDs: two of three workers, by pid.
func TestServerChosenPIDs(t *testing.T) {
	f := harness.StartFleet(t, 3)
	fleet := f.Workers(t)
	other := fleet[1]
	delete(fleet, 1)
	r := fleet[0].Begin(t, "-p", strconv.Itoa(fleet[2].PID))
	r.EndAfter(t, 300*time.Millisecond, 200, fleet)
	run := r.MustRecord(t)
	if other.Status(t).Resident {
		t.Error("the worker that was not meant has a payload")
	}
	counts := f.Quit(t, fleet)
	checkWorkers(t, fleet, counts, run.Trace)
}

// TestServerInContainer: the tool records a server in another pid and mount namespace by its
// outer pid, and needs nothing inside.
func TestServerInContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "only root can make namespaces")
	}
	recordContained(t, harness.StartFleet(t, 2, container...), 2)
}

// TestServerInOtherRoot: the whole server in a container of another Debian release, with
// its glibc and its ROCm; and nothing is written in there. Of a second one a worker dies.
func TestServerInOtherRoot(t *testing.T) {
	r := harness.FindRuntime(t, cmp.Or(os.Getenv("RTL_RUNTIME"), "trixie"))
	if !r.Has("frontend") || !r.Has("serve") { // make matrix makes its root file system alone
		testenv.Skip(t, "Debian "+r.Suite+": frontend and serve were not built (run: make runtimes)")
	}
	f := harness.StartFleetIn(t, &r, workers, container...)
	before := r.Files(t)
	recordContained(t, f, workers)
	for path, now := range r.Files(t) {
		if before[path] != now {
			t.Errorf("written: %s: %s, before %q", path, now, before[path])
		}
	}
	loseWorker(t, harness.StartFleetIn(t, &r, workers, container...))
}

// container is a pid namespace, and a mount namespace for its /proc.
var container = []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}

func recordContained(t *testing.T, f *harness.Fleet, workers int) {
	t.Helper()
	fleet := f.Workers(t)
	if len(fleet) != workers {
		t.Fatalf("workers: %v", fleet)
	}
	run := f.RecordEach(t, time.Second, 200)
	counts := f.Quit(t, fleet)
	checkWorkers(t, fleet, counts, run.Trace)
	for _, p := range byOutcome(run.Summary)[tracedb.OutcomeRecorded] {
		if p.Rank == nil || fleet[int(*p.Rank)].PID != int(p.PID) {
			t.Errorf("%+v", p)
		}
	}
}
