// Command benchdb compares how fast several writers write dispatches into a trace. They
// alternate in one run, each in its own process. Run it with `make bench-db`, or
// `make bench-db-short`.
//
//   - tracedb, as the recorder uses it
//   - plain C: the same rows through a prepared statement, with the same SQLite
//   - go-sqlite3, the same rows one Exec at a time
//   - with RTL_BENCH_PEER=/path/librtl.so, the writer of rocm-trace-lite
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

type options struct {
	short, check bool
	rounds       int
	rows         uint64
	dir          string
	build, peer  string

	writer, file string // for a process that is a writer
}

func parse() options {
	o := options{build: os.Getenv("RTL_BUILD"), peer: os.Getenv("RTL_BENCH_PEER")}
	flag.BoolVar(&o.short, "short", false, "few rows and rounds: for CI")
	flag.BoolVar(&o.check, "check", false, "compare with the targets; exit 1 when one is missed")
	flag.IntVar(&o.rounds, "rounds", 11, "runs of each writer")
	flag.Uint64Var(&o.rows, "rows", 2_000_000, "dispatches that each writer writes")
	flag.StringVar(&o.dir, "dir", "", "write in this `FOLDER` (default: the one for temporary files)")
	flag.StringVar(&o.writer, "writer", "", "only run this writer: tracedb or row-by-row")
	flag.StringVar(&o.file, "file", "", "the `FILE` for -writer")
	flag.Parse()
	if o.short {
		o.rounds, o.rows = 3, 300_000
	}
	if o.build == "" {
		o.build = "build"
	}
	return o
}

func main() {
	if err := run(parse()); err != nil {
		fmt.Fprintln(os.Stderr, "benchdb:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	switch o.writer {
	case "":
		return measure(o)
	case "tracedb":
		return writeOurs(o.file, o.rows)
	case "row-by-row":
		return writeRowByRow(o.file, o.rows)
	}
	return fmt.Errorf("no writer %q", o.writer)
}

func measure(o options) error {
	scratch, err := os.MkdirTemp(o.dir, "rtl-bench-db-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	runner := &runner{options: o, template: filepath.Join(scratch, "template.db"), file: filepath.Join(scratch, "trace.db")}
	if runner.self, err = os.Executable(); err != nil {
		return err
	}
	if err := template(runner.template); err != nil {
		return err
	}
	writers := runner.writers()
	for round := range o.rounds {
		if err := runner.round(writers, round%2 == 1); err != nil {
			return err
		}
	}
	printTable(os.Stdout, o, writers)
	if o.check && !checks(os.Stdout, o, writers) {
		return errors.New("a target was missed")
	}
	return nil
}
