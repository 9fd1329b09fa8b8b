package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// report has all results of one run.
type report struct {
	Machine       machine  `json:"machine"`
	SecondsPerRun float64  `json:"seconds_per_run"`
	Pairs         int      `json:"pairs"`
	Rows          []*row   `json:"rows"`
	Notes         []string `json:"notes"`
}

const (
	nameWidth  = 32
	valueWidth = 17
)

func (r *report) print(w io.Writer) {
	m := r.Machine
	fmt.Fprintf(w, "machine    %d × %s, Linux %s\n", m.CPUs, m.Model, m.Kernel)
	fmt.Fprintf(w, "load       %s before, %s after\n", m.LoadBefore, m.LoadAfter)
	fmt.Fprintf(w, "simulator  %s; its engine, the workload and the recorder share the CPUs\n", m.simulatorText())
	fmt.Fprintf(w, "method     %d pairs of %g s in alternating order; medians, and × the median of the paired ratios to untraced; of off to detached\n", r.Pairs, r.SecondsPerRun)
	columns := r.columns()
	for _, group := range r.groups() {
		r.printGroup(w, group, columns)
	}
	fmt.Fprintln(w, "\nrecorded: the share of dispatches that have their times in the trace; the others are counted in it, with the reason")
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note:", n)
	}
}

func (r *report) printGroup(w io.Writer, group string, columns []variant) {
	fmt.Fprintf(w, "\n%s\n%s", group, strings.Repeat(" ", nameWidth))
	for _, v := range columns {
		fmt.Fprint(w, right(v.String(), valueWidth))
	}
	fmt.Fprintln(w, right("recorded", 10)+right("pairs", 7))
	for _, row := range r.Rows {
		if row.Group == group {
			row.print(w, columns)
		}
	}
}

func (r *row) print(w io.Writer, columns []variant) {
	fmt.Fprintf(w, "  %-*s", nameWidth-2, r.Name)
	for _, v := range columns {
		text := number(median(r.values(v)))
		if ratio := median(r.ratios(v)); v != untraced && !math.IsNaN(ratio) {
			text += fmt.Sprintf(" ×%.2f", ratio)
		}
		fmt.Fprint(w, right(text, valueWidth))
	}
	recorded := "-"
	if len(r.recorded) > 0 {
		recorded = fmt.Sprintf("%.2f %%", 100*median(r.recorded))
	}
	fmt.Fprintln(w, right(recorded, 10)+right(fmt.Sprint(len(r.ratios(attached))), 7))
}

// columns returns the variants that have values.
func (r *report) columns() []variant {
	var out []variant
	for v := range variants {
		for _, row := range r.Rows {
			if len(row.values(v)) > 0 {
				out = append(out, v)
				break
			}
		}
	}
	return out
}

// groups returns the groups in the order of their first rows.
func (r *report) groups() []string {
	var out []string
	seen := map[string]bool{}
	for _, row := range r.Rows {
		if !seen[row.Group] {
			seen[row.Group] = true
			out = append(out, row.Group)
		}
	}
	return out
}

func number(n float64) string {
	switch {
	case math.IsNaN(n):
		return "-"
	case math.Abs(n) < 100:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// right aligns text to the right. It counts letters, not bytes.
func right(text string, width int) string {
	return strings.Repeat(" ", max(width-len([]rune(text)), 1)) + text
}
