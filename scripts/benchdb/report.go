package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Keys of the writers.
const (
	ours     = "tracedb"
	plain    = "plain"
	rowByRow = "row-by-row"
	peer     = "peer"
)

// mostBytes is the limit for a dispatch in the file.
const mostBytes = 64

// targets are the required ratios of processor time to the other writers.
var targets = []struct {
	key, text string
	least     float64
}{
	{plain, "at least 0.8 of plain C", 0.8},
	{rowByRow, "at least 4 times go-sqlite3, row by row", 4},
	{peer, "at least 3 times rocm-trace-lite", 3},
}

func wall(s sample) time.Duration      { return s.wall }
func processor(s sample) time.Duration { return s.processor }

// faster returns how many times faster a is than b: the median of the rounds' ratios.
func faster(a, b *writer, of func(sample) time.Duration) float64 {
	ratios := make([]float64, len(a.runs))
	for i := range ratios {
		ratios[i] = float64(of(b.runs[i])) / float64(of(a.runs[i]))
	}
	return median(ratios)
}

// rate returns the median rate in million rows per second.
func rate(w *writer, rows uint64, of func(sample) time.Duration) float64 {
	rates := make([]float64, len(w.runs))
	for i, s := range w.runs {
		rates[i] = float64(rows) / of(s).Seconds() / 1e6
	}
	return median(rates)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (w *writer) bytesPerRow(rows uint64) float64 {
	return float64(w.runs[len(w.runs)-1].bytes) / float64(rows)
}

func printTable(out io.Writer, o options, writers []*writer) {
	fmt.Fprintf(out, "%d rounds of %d dispatches, the writers in alternating order; medians. Load average: %s.\n", o.rounds, o.rows, load())
	fmt.Fprint(out, "×: how much faster tracedb is, the median of the rounds' ratios.\n\n")
	fmt.Fprintf(out, "%-24s%18s%8s%18s%8s%12s\n", "million rows a second", "of processor", "×", "of wall clock", "×", "bytes/row")
	for _, w := range writers {
		fmt.Fprintf(out, "%-24s%18.2f%8.2f%18.2f%8.2f%12.1f\n", w.name,
			rate(w, o.rows, processor), faster(writers[0], w, processor),
			rate(w, o.rows, wall), faster(writers[0], w, wall), w.bytesPerRow(o.rows))
	}
}

// load describes the machine's load, which includes the benchmark.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	average, _, _ := strings.Cut(string(b), " ")
	return fmt.Sprintf("%s, on %d processors", average, runtime.NumCPU())
}

// checks prints the targets, and reports whether all are met.
func checks(out io.Writer, o options, writers []*writer) bool {
	all := true
	say := func(ok bool, text, found string) {
		verdict := "PASS"
		if !ok {
			verdict, all = "FAIL", false
		}
		fmt.Fprintf(out, "  %s  %-44s %s\n", verdict, text, found)
	}
	fmt.Fprintln(out, "\ntargets")
	for _, t := range targets {
		i := slices.IndexFunc(writers, func(w *writer) bool { return w.key == t.key })
		if i < 0 {
			fmt.Fprintf(out, "  -     %-44s not measured: RTL_BENCH_PEER is not set\n", t.text)
			continue
		}
		ratio := faster(writers[0], writers[i], processor)
		say(ratio >= t.least, t.text, fmt.Sprintf("×%.2f", ratio))
	}
	bytes := writers[0].bytesPerRow(o.rows)
	say(bytes <= mostBytes, fmt.Sprintf("at most %d bytes for a dispatch", mostBytes), fmt.Sprintf("%.1f", bytes))
	return all
}
