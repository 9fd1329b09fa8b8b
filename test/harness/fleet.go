package harness

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Fleet is a server: a front end without a GPU, and its GPU workers.
type Fleet struct {
	*Process
	logs string
	own  map[int]int // the workers' pids in their namespace, by their pids in the test's
}

// StartFleet returns when all workers dispatch. under is the command that starts
// the front end, if there is one.
func StartFleet(t testing.TB, workers int, under ...string) *Fleet {
	t.Helper()
	return StartFleetIn(t, given(t), workers, under...)
}

// StartFleetIn starts the server in a release; nil: on the machine itself.
func StartFleetIn(t testing.TB, r *Runtime, workers int, under ...string) *Fleet {
	t.Helper()
	preload, program, logs := testenv.Artefact(t, "libsoftgpu.so"), testenv.Artefact(t, "workloads/serve"), filepath.Join(t.TempDir(), "truth")
	if r != nil {
		preload, program, logs = inRootBuild+"/libsoftgpu.so", r.program("serve"), inRootLogs+"/workers"
	}
	f := &Fleet{logs: logs, own: map[int]int{}}
	f.Process = StartCold(t, Workload{Program: "frontend", NoGPU: true, Runtime: r, Under: under, Args: []string{
		"--workers", strconv.Itoa(workers), "--log", logs, "--preload", preload,
		"--", program, "--threads", "2", "--streams", "2", "--rate", "20", "--kernels", "16",
	}})
	if r != nil {
		f.logs = filepath.Join(filepath.Dir(f.log), filepath.Base(logs))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server said:\n%s", f.Output())
		}
	})
	f.Ready(t)
	for _, w := range f.Workers(t) {
		Until(t, "the workers dispatch", w.Dispatches(t, 100))
	}
	return f
}

// Workers returns the ready workers, by rank.
func (f *Fleet) Workers(t testing.TB) map[int]*Process {
	t.Helper()
	text, err := f.Get("/workers")
	if err != nil {
		t.Fatalf("the front end does not answer: %v\n%s", err, f.Output())
	}
	pids, err := f.outside()
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]*Process{}
	for line := range strings.Lines(text) {
		var rank, own, port int
		if n, _ := fmt.Sscan(line, &rank, &own, &port); n == 3 && port != 0 && pids[own] != 0 {
			pid := pids[own]
			f.own[pid] = own
			found[rank] = &Process{
				PID: pid, contained: pid != own,
				URL: fmt.Sprintf("http://127.0.0.1:%d", port), log: fmt.Sprintf("%s.%d", f.logs, own),
			}
		}
	}
	return found
}

// outside returns the pids of the front end's descendants in the test's namespace, by their pids in
// their own.
func (f *Fleet) outside() (map[int]int, error) {
	descendants, err := target.Descendants(f.PID)
	pids := map[int]int{}
	for _, d := range descendants {
		if p, err := target.OpenLight(d.PID); err == nil {
			pids[p.NSPID[len(p.NSPID)-1]] = d.PID
			p.Close()
		}
	}
	return pids, err
}

// Quit ends the server normally. After it, the workers' own counts of dispatches are known.
func (f *Fleet) Quit(t testing.TB, workers map[int]*Process) map[int]simlog.Counts {
	t.Helper()
	for _, w := range workers {
		w.tids, w.quitting = w.TIDs(), true
	}
	f.askToQuit(t)
	if code := f.Wait(t); code != 0 {
		t.Fatalf("the server ended with %d\n%s", code, f.Output())
	}
	counts := map[int]simlog.Counts{}
	for rank, w := range workers {
		for line := range strings.SplitSeq(f.Output(), "\n") {
			if said, its := strings.CutPrefix(line, fmt.Sprintf("worker %d: ", f.own[w.PID])); its {
				w.output = append(w.output, said)
			}
		}
		var err error
		if counts[rank], err = w.counts(); err != nil {
			t.Fatalf("worker %d: %v\n%s", w.PID, err, f.Output())
		}
	}
	return counts
}

// RecordEach makes a recording of all workers that must succeed, for at least a time and until each of them has made a
// number of further dispatches, even on a busy machine.
func (f *Fleet) RecordEach(t testing.TB, d time.Duration, dispatches int, args ...string) Run {
	t.Helper()
	r := f.Begin(t, args...)
	r.EndAfter(t, d, dispatches, f.Workers(t))
	return r.MustRecord(t)
}

// EndAfter ends a recording after at least a time, and when each of the workers has made a number of further dispatches
// in it.
func (r *Command) EndAfter(t testing.TB, d time.Duration, dispatches int, workers map[int]*Process) {
	t.Helper()
	r.saysOrEnds(t, "✓ attached")
	over := time.Now().Add(d)
	var enough []func() bool
	for _, w := range workers {
		enough = append(enough, w.Dispatches(t, dispatches))
	}
	for _, of := range enough {
		Until(t, "each worker has dispatched enough", of)
	}
	Until(t, "the time is over", func() bool { return time.Now().After(over) })
	r.Interrupt(t)
}

// othersOf returns the rows of a trace that belong to processes other than the one whose sessions
// are kept.
const othersOf = `
	DELETE FROM rtl_queue WHERE session_id NOT IN (SELECT id FROM rtl_session);
	DELETE FROM rtl_launch WHERE session_id NOT IN (SELECT id FROM rtl_session);
	DELETE FROM rtl_thread WHERE session_id NOT IN (SELECT id FROM rtl_session);
	DELETE FROM rtl_agent WHERE session_id NOT IN (SELECT id FROM rtl_session);
	DELETE FROM rtl_loss WHERE session_id NOT IN (SELECT id FROM rtl_session);
	DELETE FROM rtl_pause WHERE session_id NOT IN (SELECT id FROM rtl_session);
	DELETE FROM rtl_counter WHERE session_id NOT IN (SELECT id FROM rtl_session);
	DELETE FROM rtl_context WHERE queue_id NOT IN (SELECT id FROM rtl_queue);
	DELETE FROM rtl_execution WHERE context_id NOT IN (SELECT id FROM rtl_context);
	DELETE FROM rtl_filtered WHERE queue_id NOT IN (SELECT id FROM rtl_queue);
	DELETE FROM rtl_filtered_kernel WHERE session_id NOT IN (SELECT id FROM rtl_session);
	DELETE FROM rtl_untimed WHERE queue_id NOT IN (SELECT id FROM rtl_queue);
	DELETE FROM rtl_window WHERE queue_id NOT IN (SELECT id FROM rtl_queue);
	DELETE FROM rtl_coverage WHERE queue_id NOT IN (SELECT id FROM rtl_queue);`

// strangers counts rows that refer to another process's rows.
const strangers = `SELECT count(*) FROM rtl_context c JOIN rtl_queue q ON q.id = c.queue_id JOIN rtl_agent a ON a.id = q.agent_id
	LEFT JOIN rtl_launch l ON l.id = c.launch_id LEFT JOIN rtl_thread t ON t.id = c.thread_id
	WHERE a.session_id <> q.session_id OR l.session_id IS NOT q.session_id OR coalesce(t.session_id, q.session_id) <> q.session_id`

// ReadTraceOf reads one process's part of a trace.
func ReadTraceOf(t testing.TB, path string, pid int) *Trace {
	t.Helper()
	one := filepath.Join(t.TempDir(), "one.db")
	if err := copyFile(one, path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", one)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mixed := 0
	if err := db.QueryRow(strangers).Scan(&mixed); err != nil || mixed > 0 {
		t.Errorf("%d contexts refer to another process than their queue does (%v)", mixed, err)
	}
	if _, err := db.Exec("DELETE FROM rtl_session WHERE pid <> ?", pid); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(othersOf); err != nil {
		t.Fatal(err)
	}
	return ReadTrace(t, one)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
