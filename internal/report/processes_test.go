package report

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

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
	until := []uint64{2700, 1950} // the second one is detached from before the window's end
	for i, kernels := range [][]tracedb.Dispatch{
		{{StartNS: 500, EndNS: 700}, {StartNS: 900, EndNS: 1100}, {StartNS: 1050, EndNS: 1200}},
		{{StartNS: 1500, EndNS: 1600}, {StartNS: 1900, EndNS: 2600}},
	} {
		session, err := db.Begin(tracedb.SessionInfo{PID: uint32(10 + i), StartTicks: 5})
		if err != nil {
			t.Fatal(err)
		}
		for k := range kernels {
			kernels[k].Queue = 1
		}
		for _, err := range []error{
			session.Agent(tracedb.Agent{ID: 1, BDF: uint32(i)}),
			session.Queue(tracedb.Queue{ID: 1, Agent: 1}),
			session.Dispatches(kernels),
			session.End(tracedb.End{
				Reason: "detached", ArmedNS: 400, DetachedNS: until[i],
				Coverage: []tracedb.Coverage{{Queue: 1, Windows: 1, Dispatches: uint64(len(kernels)), Timed: uint64(len(kernels))}},
			}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	rank := 1
	for _, err := range []error{
		db.BeginCommon(1000),
		db.EndCommon(2000),
		db.Targets([]tracedb.Target{
			{PID: 10, StartTicks: 5, Command: "worker", Fate: tracedb.FateRecorded},
			{PID: 11, StartTicks: 5, Command: "worker\x1b[2J", Rank: &rank, Fate: tracedb.FateExited, ExitCode: 5, Text: "exited"},
			{PID: 12, Command: "worker", Fate: tracedb.FateRefused, ExitCode: 3, Text: "traced"},
			{PID: 13, Command: "sh", Fate: tracedb.FatePassedOver},
			{PID: 14, Command: "sh", Fate: tracedb.FatePassedOver},
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
	// Of the kernels at the window's ends, what lies within counts. The second session
	// goes on to the end of its last kernel, which was waited for.
	for i, recorded := range []int64{1000, 1000} {
		if g := s.GPUs[i]; g.BusyNS != 200 || g.RecordedNS != recorded || g.Percent != 100*200/float64(recorded) {
			t.Errorf("GPU %+v, want 200 of %d ns", g, recorded)
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
