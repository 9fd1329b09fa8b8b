package report

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A recording is one of a process that dispatches to a GPU of its own.
type recording struct {
	pid, gpu            uint32
	armedNS, detachedNS uint64
	kernels             []tracedb.Dispatch
}

func (one recording) write(t *testing.T, db *tracedb.DB) {
	t.Helper()
	session, err := db.Begin(tracedb.SessionInfo{PID: one.pid, StartTicks: 5})
	must(t, err)
	for k := range one.kernels {
		one.kernels[k].Queue = 1
	}
	n := uint64(len(one.kernels))
	must(t,
		session.Agent(tracedb.Agent{ID: 1, BDF: one.gpu}),
		session.Queue(tracedb.Queue{ID: 1, Agent: 1}),
		session.Dispatches(one.kernels),
		session.End(tracedb.End{
			Reason: "detached", ArmedNS: one.armedNS, DetachedNS: one.detachedNS,
			Coverage: []tracedb.Coverage{{Queue: 1, Windows: 1, Dispatches: n, Timed: n}},
		}))
}

// appendTo adds to a trace what is written by add.
func appendTo(t *testing.T, path string, add func(*tracedb.DB)) {
	t.Helper()
	place, err := tracedb.CheckExtend(path, 1)
	must(t, err)
	db, err := tracedb.Make(place)
	must(t, err)
	add(db)
	must(t, db.Close())
}

// serverTrace has two processes, each with a GPU of its own that it calls GPU 0,
// and a common window from 1000 to 2000 ns; a third one was refused.
func serverTrace(t *testing.T) string {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "trace.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Create(place)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []recording{
		{10, 0, 400, 2700, []tracedb.Dispatch{{StartNS: 500, EndNS: 700}, {StartNS: 900, EndNS: 1100}, {StartNS: 1050, EndNS: 1200}}},
		{11, 1, 400, 1950, []tracedb.Dispatch{{StartNS: 1500, EndNS: 1600}, {StartNS: 1900, EndNS: 2600}}}, // detached from before the window's end
	} {
		one.write(t, db)
	}
	rank := 1
	for _, err := range []error{
		db.BeginCommon(1000),
		db.EndCommon(2000),
		db.Targets([]tracedb.Target{
			{PID: 10, StartTicks: 5, Command: "worker", Outcome: tracedb.OutcomeRecorded},
			{PID: 11, StartTicks: 5, Command: "worker\x1b[2J", Rank: &rank, Outcome: tracedb.OutcomeExited, ExitCode: 5, Detail: "exited"},
			{PID: 12, Command: "worker", Outcome: tracedb.OutcomeRefused, ExitCode: 3, Detail: "traced"},
			{PID: 13, Command: "sh", Outcome: tracedb.OutcomePassedOver},
			{PID: 14, Command: "sh", Outcome: tracedb.OutcomePassedOver},
		}),
		db.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return place.Path
}

func TestProcesses(t *testing.T) {
	s, err := Summarize(serverTrace(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Common; c == nil || *c != (Common{StartNS: 1000, EndNS: 2000, Inside: 2, Outside: 3}) {
		t.Errorf("%+v", c)
	}
	// Of the kernels at the window's ends, what lies within counts. The second session's own
	// window ended earlier, in its last kernel.
	for i, want := range [][2]int64{{200, 1000}, {150, 950}} {
		if g := s.GPUs[i]; g.BusyNS != want[0] || g.RecordedNS != want[1] || g.Percent != 100*float64(want[0])/float64(want[1]) {
			t.Errorf("GPU %+v, want %d of %d ns", g, want[0], want[1])
		}
	}
	if p := s.Processes[1]; len(s.Processes) != 5 || p.Dispatches != 2 || len(p.GPUs) != 1 || p.GPUs[0] != 1 || *p.Rank != 1 {
		t.Errorf("%+v", s.Processes)
	}
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Window     1 µs common to 1 of 3 processes; 3 of 5 kernels lie outside of it, and do not count as GPU busy\n",
		"Processes  10                worker               recorded       3 dispatches  GPU 0\n",
		"           11       rank 1   worker\\x1b[2J        exited         2 dispatches  GPU 1  exited\n",
		"           12                worker               refused    traced\n",
		"Without a GPU  sh ×2\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// TestPerProcess: what began in the window that all share, and the rank.
func TestPerProcess(t *testing.T) {
	path := serverTrace(t)
	change(t, path, "INSERT INTO rocpd_metadata(tag, value) VALUES('session_2_rank', '1'), ('session_99_rank', '3'), ('session_x_rank', 'x')")
	r, err := Make(path, Options{})
	must(t, err)
	if p := r.PerProcess; p[0].InWindow != 1 || p[0].Dispatches != 3 || p[0].Rank != nil || p[1].InWindow != 2 || p[1].Rank == nil || *p[1].Rank != 1 {
		t.Errorf("%+v", r.PerProcess)
	}
	var text, csv bytes.Buffer
	must(t, r.WriteText(&text, false))
	table, _ := TableNamed("processes")
	must(t, r.WriteCSV(&csv, table))
	if want := "\n rank 1 (pid 11, )  1  "; !strings.Contains(text.String(), want) {
		t.Errorf("%q is not in\n%s", want, text.String())
	}
	if lines := strings.Split(csv.String(), "\n"); !strings.HasSuffix(lines[0], ",rank,kernels_in_window") || !strings.HasSuffix(lines[1], ",,1") || !strings.HasSuffix(lines[2], ",1,2") {
		t.Errorf("%s", csv.String())
	}
}

// One process appended to a server's trace: the server's window is not that of all.
func TestWindowOfAppendedProcess(t *testing.T) {
	for name, pid := range map[string]uint32{"another process": 77, "one of the server's": 10} {
		t.Run(name, func(t *testing.T) {
			path := serverTrace(t)
			appendTo(t, path, func(db *tracedb.DB) {
				recording{pid, 3, 5000, 6000, []tracedb.Dispatch{{StartNS: 5100, EndNS: 5600}}}.write(t, db)
			})
			s, err := Summarize(path, 1)
			must(t, err)
			if g := s.GPUs[len(s.GPUs)-1]; s.Common != nil || g.BusyNS != 500 || g.RecordedNS != 1000 {
				t.Errorf("%+v, %+v", s.Common, g)
			}
		})
	}
}

// Of a GPU that was not recorded in the window nothing is said.
func TestGPUOutsideOfWindow(t *testing.T) {
	path := serverTrace(t)
	change(t, path, "UPDATE rtl_common SET start_ns = 2600, end_ns = 2650")
	s, err := Summarize(path, 1)
	must(t, err)
	var text bytes.Buffer
	must(t, s.WriteText(&text))
	if want := "GPU busy   0: 0.0%  1: -\n"; !strings.Contains(text.String(), want) {
		t.Errorf("%q is not in\n%s", want, text.String())
	}
}

// A server recorded twice has each worker once, with what became of it last.
func TestProcessesOfTwoRecordings(t *testing.T) {
	path := serverTrace(t)
	rank := 7
	appendTo(t, path, func(db *tracedb.DB) {
		recording{10, 0, 5000, 6000, []tracedb.Dispatch{{StartNS: 5100, EndNS: 5600}}}.write(t, db)
		must(t, db.BeginCommon(5000), db.EndCommon(6000), db.Targets([]tracedb.Target{
			{PID: 10, StartTicks: 5, Command: "worker", Rank: &rank, Outcome: tracedb.OutcomeExited, ExitCode: 5, Detail: "exited"},
			{PID: 12, Command: "worker", Outcome: tracedb.OutcomeRefused, ExitCode: 3, Detail: "traced"}, // whether it is the same one nobody knows
		}))
	})
	s, err := Summarize(path, 1)
	must(t, err)
	of := map[int64][]Process{}
	for _, p := range s.Processes {
		of[p.PID] = append(of[p.PID], p)
	}
	if len(of[10]) != 1 || len(of[11]) != 1 || len(of[12]) != 2 {
		t.Fatalf("%+v", s.Processes)
	}
	if p := of[10][0]; p.Dispatches != 4 || p.Outcome != tracedb.OutcomeExited || p.Rank == nil || *p.Rank != 7 || p.Detail != "exited" || p.ExitCode != 5 {
		t.Errorf("%+v", p)
	}
	if p := of[11][0]; p.Dispatches != 2 || s.Common != nil {
		t.Errorf("%+v, %+v", p, s.Common)
	}
}

// Traces of earlier versions have no processes.
func TestProcessesOfOlderTrace(t *testing.T) {
	path := serverTrace(t)
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("DROP TABLE rtl_target; DROP TABLE rtl_common"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Summarize(path, 1)
	if err != nil || s.Common != nil || s.Processes != nil || len(s.Sessions) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}
