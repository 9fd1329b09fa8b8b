package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// ofThree writes a trace of three processes, in a folder of its own, and returns the
// files that an export to rocprofv3 writes.
func ofThree(t *testing.T) (trace string, outputs []string) {
	t.Helper()
	dir := t.TempDir()
	trace = filepath.Join(dir, "t.db")
	db, err := tracedb.Create(tracedb.Place{Path: trace})
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []uint32{11, 12, 13} {
		s, err := db.Begin(tracedb.SessionInfo{PID: pid, StartTicks: 1, Command: "worker"})
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(
			s.Agent(tracedb.Agent{ID: 1, Name: "gfx90a"}),
			s.Queue(tracedb.Queue{ID: 1, Agent: 1, SizePackets: 64}),
			s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "kernel"}),
			s.Dispatches([]tracedb.Dispatch{{Queue: 1, Launch: 1, StartNS: 1000, EndNS: 2000}}))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t_11_results.json", "t_12_results.json", "t_13_results.json"} {
		outputs = append(outputs, filepath.Join(dir, name))
	}
	return trace, outputs
}

// beside lists the other files in the trace's folder.
func beside(t *testing.T, trace string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(trace))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(trace) {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestExportOfSeveral: if one of the files cannot be written, the export leaves none.
func TestExportOfSeveral(t *testing.T) {
	trace, outputs := ofThree(t)
	if err := os.WriteFile(outputs[2], []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"export", trace, "-f", "rocprofv3"}); code != failure.Failed {
		t.Errorf("code %d", code)
	}
	if left := beside(t, trace); !slices.Equal(left, []string{"t_13_results.json"}) {
		t.Errorf("left: %q", left)
	}
	if mine, err := os.ReadFile(outputs[2]); err != nil || string(mine) != "mine" {
		t.Errorf("what was there is %q, %v", mine, err)
	}
	if code := run([]string{"export", trace, trace}); code != failure.Usage {
		t.Errorf("twice into one file: code %d", code)
	}
}

// untilMade is a context that ends when a file exists.
type untilMade struct {
	context.Context
	path string
}

func (c untilMade) Err() error {
	if _, err := os.Lstat(c.path); err == nil {
		return context.Canceled
	}
	return nil
}

func (c untilMade) Done() <-chan struct{} {
	done := make(chan struct{})
	if c.Err() != nil {
		close(done)
	}
	return done
}

// TestExportInterrupted: an export interrupted in its last file leaves no file and can
// be run again.
func TestExportInterrupted(t *testing.T) {
	trace, outputs := ofThree(t)
	f := exportFlags{}
	format, _ := export.FormatNamed("rocprofv3")
	ctx := untilMade{t.Context(), outputs[2]}
	jobs, err := f.jobs(ctx, format, []string{trace})
	if err != nil || len(jobs) != 3 {
		t.Fatalf("%d files, %v", len(jobs), err)
	}
	if err := (exportFlags{}).writeAll(ctx, format, jobs); !errors.Is(err, traceread.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	if left := beside(t, trace); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if code := run([]string{"export", trace, "-f", "rocprofv3"}); code != failure.OK {
		t.Errorf("again: code %d", code)
	}
	if made := beside(t, trace); len(made) != len(outputs) {
		t.Errorf("made: %q", made)
	}
}
