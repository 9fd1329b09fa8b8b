package main

import (
	"fmt"
	"io"
	"math"
)

// target is a limit for a row.
type target struct {
	mode, name, text string
	check            func(*row) (found string, ok bool)
}

var targets = []target{
	{"idle-burst", "1 thread", "at most 60 ns more per dispatch, engine idle", atMostMore(60)},
	{"idle-signal", "1 thread", "at most 120 ns more with a signal re-armed", atMostMore(120)},
	{"loop", "1 thread, without signals", "at least half of the saturated throughput", atLeast(0.5)},
	{"loop", "4 threads, without signals", "the same with 4 threads", atLeast(0.5)},
	{"loop-signal", "1 thread, own signals re-armed", "at least half with own signals", atLeast(0.5)},
	{"latency", "p50", "median completion latency within noise", within(attached)},
	{"idle-burst", "1 thread", "a detached process dispatches like one that was never attached to", within(detached)},
	{"loop", "1 thread, without signals", "and at the same rate", within(detached)},
	{"loop", "1 thread, without signals", "while a window is off, at the rate of a detached process", within(windowOff)},
	{"loop", "4 threads, without signals", "the same with 4 threads", within(windowOff)},
}

func atMostMore(ns float64) func(*row) (string, bool) {
	return func(r *row) (string, bool) {
		more := median(r.differences(attached))
		return fmt.Sprintf("%+.1f ns", more), more <= ns
	}
}

func atLeast(share float64) func(*row) (string, bool) {
	return func(r *row) (string, bool) {
		ratio := median(r.ratios(attached))
		return fmt.Sprintf("×%.2f", ratio), ratio >= share
	}
}

// within checks that v differs from its base by no more than the noise: the distance
// between the quartiles of the base's runs, but at least 5 %.
func within(v variant) func(*row) (string, bool) {
	return func(r *row) (string, bool) {
		values := r.values(v.base())
		noise := max(0.05, (quantile(values, 0.75)-quantile(values, 0.25))/median(values))
		ratio := median(r.ratios(v))
		return fmt.Sprintf("×%.2f, noise ±%.2f", ratio, noise), math.Abs(ratio-1) <= noise
	}
}

// printChecks prints the targets, and reports whether all are met.
func printChecks(w io.Writer, rows []*row) bool {
	all := true
	fmt.Fprintln(w, "\ntargets")
	for _, t := range targets {
		for _, r := range rows {
			if r.mode != t.mode || r.Name != t.name {
				continue
			}
			found, ok := t.check(r)
			verdict := "PASS"
			if !ok {
				verdict, all = "FAIL", false
			}
			fmt.Fprintf(w, "  %s  %-52s %s\n", verdict, t.text, found)
			break // the target applies to the first row of a cell
		}
	}
	return all
}
