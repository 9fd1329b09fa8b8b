package export

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// server is a trace of two ranks with a common window, and of a third one that was killed early.
func server(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	for rank := range 2 {
		s, err := db.Begin(tracedb.SessionInfo{PID: uint32(50 + rank), StartTicks: 7, Command: "worker", Host: "node", Generation: 1, Rank: &rank})
		must(t, err)
		record(t, s, uint64(day+rank*1000))
	}
	must(t, errors.Join(db.BeginCommon(day+1000), db.EndCommon(day+3000), db.Targets([]tracedb.Target{
		{PID: 50, StartTicks: 7, Command: "worker", Outcome: tracedb.OutcomeRecorded},
		{PID: 52, Command: "worker", Outcome: tracedb.OutcomeExited, Detail: "exited \x1b[2J"},
		{PID: 53, Command: "sh", Outcome: tracedb.OutcomePassedOver},
	}), db.Close()))
	return path
}

// TestTogether: ranks, the common window and the outcomes are shown.
func TestTogether(t *testing.T) {
	path := server(t)
	data, _ := exported(t, "pftrace", path)
	var names, tracks []string
	for _, p := range decodePerfetto(t, data) {
		if d := p.TrackDescriptor; d != nil && d.Process != nil {
			names = append(names, d.Process.ProcessName)
		} else if d != nil {
			tracks = append(tracks, d.Name)
		}
		for _, n := range p.InternedData.EventNames {
			names = append(names, n.Name)
		}
	}
	all := strings.Join(append(names, tracks...), "\n")
	for _, want := range []string{"rank 0 worker", "rank 1 worker", "processes recorded together", "common window", `pid 52 (worker): exited: exited \x1b[2J`} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	chromium, _ := exported(t, "chrome", path)
	zip, err := gzip.NewReader(bytes.NewReader(chromium))
	must(t, err)
	text, err := io.ReadAll(zip)
	must(t, err)
	for _, want := range []string{
		"rank 1 worker (pid 51 on node)", `"processes recorded together"`, `"dur":2.000,"name":"common window"`,
		`"dur":0.000,"name":"pid 52 (worker): exited: exited \\x1b[2J"`,
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestTooMuchTogether: outcomes that each of many windows would have to show are refused.
func TestTooMuchTogether(t *testing.T) {
	tg := together{windows: make([]traceread.Span, 1<<10), outcomes: make([]string, traceread.MostDefinitions>>10)}
	shown := 0
	show := func() error {
		return tg.each(func(traceread.Span) error { return nil }, func(int64, string) error { shown++; return nil })
	}
	if err := show(); err != nil || shown != traceread.MostDefinitions {
		t.Errorf("%d shown, %v", shown, err)
	}
	tg.windows = append(tg.windows, traceread.Span{})
	if err := show(); !errors.Is(err, traceread.ErrImpossible) || shown != traceread.MostDefinitions {
		t.Errorf("one window more: %d shown, %v", shown, err)
	}
}

// TestTooManyProcesses: as many files beside a trace as it likes are not made.
func TestTooManyProcesses(t *testing.T) {
	tr := &trace{}
	add := func(pid int64) {
		tr.sessions = append(tr.sessions, &traceread.Session{Process: &traceread.Process{ID: traceread.ProcessID{PID: pid}}})
	}
	for pid := range int64(mostProcesses) {
		add(pid)
		add(pid)
	}
	if pids, err := tr.pids(); err != nil || len(pids) != mostProcesses {
		t.Errorf("%d, %v", len(pids), err)
	}
	add(mostProcesses)
	if pids, err := tr.pids(); !errors.Is(err, traceread.ErrImpossible) {
		t.Errorf("one more: %d, %v", len(pids), err)
	}
}

// TestOneProcess: rocprofv3's readers take one process of a file.
func TestOneProcess(t *testing.T) {
	path := server(t)
	pids, err := PIDs(t.Context(), path)
	if err != nil || fmt.Sprint(pids) != "[50 51]" {
		t.Fatalf("%v, %v", pids, err)
	}
	f, _ := FormatNamed("rocprofv3")
	for _, pid := range pids {
		output := filepath.Join(t.TempDir(), "out")
		r, err := f.Write(t.Context(), path, output, pid)
		must(t, err)
		text, err := os.ReadFile(output)
		must(t, err)
		if len(r.Sessions) != 1 || r.Dispatches != 9 || !strings.Contains(string(text), fmt.Sprintf(`"pid":%d,`, pid)) || strings.Count(string(text), `"metadata"`) != 1 {
			t.Errorf("pid %d: %+v", pid, r)
		}
		if strings.Contains(strings.Join(r.Warnings(f), "\n"), "TraceLens") {
			t.Errorf("%q", r.Warnings(f))
		}
	}
	if _, err := f.Write(t.Context(), path, filepath.Join(t.TempDir(), "out"), 99); !errors.Is(err, ErrNoSession) {
		t.Errorf("%v", err)
	}
	if got := f.DefaultOutput("t.db", 50); got != "t_50_results.json" {
		t.Error(got)
	}
}
