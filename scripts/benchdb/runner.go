package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// writer is one way to write the rows.
type writer struct {
	name  string
	key   string
	args  []string
	fills bool // fills a copy of the template; else it creates its own file
	ours  bool // writes tracedb's layout
	runs  []sample
}

// sample is one measurement.
type sample struct {
	wall, processor time.Duration
	bytes           int64
}

// runner runs the writers.
type runner struct {
	options
	self, template, file string
}

func (r *runner) writers() []*writer {
	rows := strconv.FormatUint(r.rows, 10)
	self := func(name string) []string { return []string{r.self, "-writer", name, "-file", r.file, "-rows", rows} }
	all := []*writer{
		{name: "tracedb", key: ours, args: self("tracedb"), ours: true},
		{name: "plain C", key: plain, args: []string{filepath.Join(r.build, "benchdb", "plain"), r.file, rows}, fills: true, ours: true},
		{name: "go-sqlite3, row by row", key: rowByRow, args: self("row-by-row"), fills: true, ours: true},
	}
	if r.peer != "" {
		all = append(all, &writer{
			name: "rocm-trace-lite", key: peer,
			args: []string{filepath.Join(r.build, "benchdb", "peer"), r.peer, r.file, rows},
		})
	}
	return all
}

// round runs every writer once.
func (r *runner) round(writers []*writer, backwards bool) error {
	order := slices.Clone(writers)
	if backwards {
		slices.Reverse(order)
	}
	for _, w := range order {
		if err := r.write(w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func (r *runner) write(w *writer) error {
	defer r.clear()
	if w.fills {
		b, err := os.ReadFile(r.template)
		if err == nil {
			err = os.WriteFile(r.file, b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	var said bytes.Buffer
	cmd := exec.Command(w.args[0], w.args[1:]...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, said.String())
	}
	var s sample
	if _, err := fmt.Sscan(string(out), &s.wall, &s.processor); err != nil {
		return fmt.Errorf("%q: %w", out, err)
	}
	info, err := os.Stat(r.file)
	if err != nil {
		return err
	}
	s.bytes = info.Size()
	w.runs = append(w.runs, s)
	if w.ours {
		return r.verify()
	}
	return nil
}

// verify compares the rows in the file with the expected rows.
func (r *runner) verify() error {
	db, err := tracedb.Open(r.file)
	if err != nil {
		return err
	}
	defer db.Close()
	var found, wanted sums
	err = db.QueryRow(`SELECT count(*), total(start_ns % 1000003), total(duration_ns), total(queued_ns), total(packet_index),
		total(queue_id), total(launch_id), total(thread_id) FROM rtl_dispatch`).
		Scan(&found[0], &found[1], &found[2], &found[3], &found[4], &found[5], &found[6], &found[7])
	if err != nil {
		return err
	}
	for n := range r.rows {
		wanted.add(dispatch(n))
	}
	if found != wanted {
		return fmt.Errorf("wrote %v, not %v", found, wanted)
	}
	return nil
}

// sums is a checksum of a trace: the number of rows, then the sum of each column.
type sums [8]float64

func (s *sums) add(d tracedb.Dispatch) {
	for i, v := range []uint64{
		1, d.StartNS % 1_000_003, d.EndNS - d.StartNS, d.StartNS - d.SubmitNS, d.Index,
		uint64(d.Queue), uint64(d.Launch), uint64(d.TID) - firstThread + 1,
	} {
		s[i] += float64(v)
	}
}

func (r *runner) clear() {
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		_ = os.Remove(r.file + suffix)
	}
}
