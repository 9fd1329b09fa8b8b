// Command bench measures the cost of recording, as ratios between variants that alternate
// in one run, never as absolute times. Run it with `make bench`, or with
// `make bench-short` to check that everything works.
//
// With -sets it measures the cost of each set of kinds of record (`make bench-sets`).
//
// With -sustained it searches instead for the highest rate of dispatches without a lost
// record (`make bench-sustained`).
//
// RTL_BENCH_PEER=/path/librtl.so adds another tracer's library, loaded through
// HSA_TOOLS_LIB into separate processes, in its modes standard and lite.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type options struct {
	short, check bool
	sustained    bool
	sets         bool
	pairs        int
	seconds      float64
	limit        time.Duration
	json, only   string

	build, peer, payload string
}

func parse() options {
	o := options{build: os.Getenv("RTL_BUILD"), peer: os.Getenv("RTL_BENCH_PEER")}
	flag.BoolVar(&o.short, "short", false, "everything once and briefly: the figures are meaningless")
	flag.BoolVar(&o.check, "check", false, "compare with the targets; exit 1 when one is missed")
	flag.BoolVar(&o.sustained, "sustained", false, "search for the highest rate at which no record is lost")
	flag.BoolVar(&o.sets, "sets", false, "measure with each set of kinds: --mode standard, --mode hip, -r, -s")
	flag.IntVar(&o.pairs, "pairs", 9, "repetitions")
	flag.Float64Var(&o.seconds, "seconds", 0.3, "length of one measurement")
	flag.DurationVar(&o.limit, "limit", 7*time.Minute, "begin no repetition that would end later")
	flag.StringVar(&o.json, "json", "", "write all values to `FILE`")
	flag.StringVar(&o.only, "only", "", "measure only these `MODE[,MODE]`s: loop, idle-burst, hiprate, serve, …")
	flag.StringVar(&o.payload, "payload", "", "record with this payload instead of the built-in one")
	flag.Parse()
	if o.short {
		o.pairs, o.seconds, o.limit = 1, 0.1, 45*time.Second
	}
	if o.build == "" {
		o.build = "build"
	}
	return o
}

func main() {
	if err := run(parse()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	build, err := filepath.Abs(o.build)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "rtl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	runner := &runner{build: build, scratch: scratch, peer: o.peer, payload: o.payload, pool: map[string]*process{}}
	defer runner.close()
	if o.sustained {
		return sustained(runner, os.Stdout, o.short)
	}

	r := report{Machine: describeMachine(), SecondsPerRun: o.seconds}
	cells := chosen(o.plan(), o.only)
	r.Rows = rowsOf(cells)
	if len(cells) == 0 {
		return fmt.Errorf("no measurement has the mode %q", o.only)
	}
	r.Pairs = repeat(runner, cells, r.Rows, o)
	r.Notes = runner.notes
	r.Machine.LoadAfter = loadAverage()
	r.print(os.Stdout)
	if o.json != "" {
		if err := r.save(o.json); err != nil {
			return err
		}
	}
	if o.check && !printChecks(os.Stdout, r.Rows) {
		return errors.New("a target was missed")
	}
	return complete(r.Rows)
}

func (o *options) plan() []cell {
	if o.sets {
		return setsPlan(o.build)
	}
	return plan()
}

func chosen(cells []cell, only string) []cell {
	if only == "" {
		return cells
	}
	var out []cell
	for _, c := range cells {
		for _, mode := range strings.Split(only, ",") {
			if c.mode == mode || c.workload == mode {
				out = append(out, c)
			}
		}
	}
	return out
}

func (r *report) save(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// complete checks that every row has a value in each variant that must have one; a peer may fail.
func complete(rows []*row) error {
	for _, r := range rows {
		demanded := r.in
		if demanded == nil {
			demanded = []variant{untraced, attached}
		}
		for _, v := range demanded {
			if len(r.values(v)) == 0 {
				return fmt.Errorf("no value for %s, %s, %s", r.Group, r.Name, v)
			}
		}
	}
	return nil
}
