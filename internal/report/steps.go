package report

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Steps are the steps of a thread: sequences of kernels that it submits again and again.
type Steps struct {
	PID     int64       `json:"pid"`
	Thread  int64       `json:"thread"`
	Marker  string      `json:"marker,omitempty"` // the name of the range that is the step
	Steps   int64       `json:"steps"`
	Percent float64     `json:"percent"` // of the thread's kernels that are in steps
	Kinds   []StepsKind `json:"kinds"`   // the one with most kernels first
}

// StepsKind is the steps of a thread with one sequence of kernels. The time of a step is from the start of its first
// kernel to the end of its last; it is idle while none of its kernels runs.
type StepsKind struct {
	First       string     `json:"first"`        // the name of its first kernel; "": various
	Kernels     int64      `json:"kernels"`      // of a step; 0: various
	PartKernels int64      `json:"part_kernels"` // of the part that is repeated in a step; 0: none is
	PartTimes   int64      `json:"part_times"`
	Steps       int64      `json:"steps"`
	TotalNS     int64      `json:"total_ns"`
	P50NS       int64      `json:"p50_ns"`
	P99NS       int64      `json:"p99_ns"`
	MaxNS       int64      `json:"max_ns"`
	IdleNS      int64      `json:"idle_ns"` // of all steps
	IdleP50NS   int64      `json:"idle_p50_ns"`
	GapP50NS    int64      `json:"gap_p50_ns"` // from the end of the thread's last step to the start of such a step
	Different   int64      `json:"different"`  // steps with missing or additional kernels
	Slow        int64      `json:"slow"`       // steps that took over 1.5 times p50_ns
	Outliers    []StepsOne `json:"outliers"`   // the slowest of these, then others that differ
}

// StepsOne is one step that is slow, or differs.
type StepsOne struct {
	Number      int64            `json:"number"` // of the thread's steps, from 1 on
	BeginNS     int64            `json:"begin_ns"`
	LengthNS    int64            `json:"length_ns"`
	IdleNS      int64            `json:"idle_ns"`
	Differences []StepDifference `json:"differences"` // from the mean of other steps, the largest first
}

// StepDifference is a difference of a step from the others of its kind.
type StepDifference struct {
	What    string `json:"what"`   // longer, idle, missing, additional
	Kernel  string `json:"kernel"` // of idle: the kernel before which most of it was
	Kernels int64  `json:"kernels"`
	NS      int64  `json:"ns"` // how much longer; of a missing kernel its usual time
	UsualNS int64  `json:"usual_ns"`
}

// selectSteps restricts the report to some steps.
func (r *Report) selectSteps(tr *traceread.Trace, s *steps.Selection) (*steps.Selected, error) {
	if s == nil {
		return nil, nil
	}
	selected, err := s.Select(background, tr)
	if err != nil {
		return nil, err
	}
	w := selected.Window
	r.Window = &Window{BeginNS: w.BeginNS, EndNS: w.EndNS, FirstStep: selected.First, LastStep: selected.Last}
	return selected, nil
}

// readSteps finds the steps in the window; of selected steps the report has all of their trace.
func (r *Report) readSteps(tr *traceread.Trace, window traceread.Span, selected *steps.Selected) (err error) {
	var all []*steps.Thread
	if selected != nil {
		all = selected.All
	} else if all, err = steps.Find(background, tr, steps.Options{Window: window}); err != nil {
		return fmt.Errorf("steps: %w", err)
	}
	names := stepNames{tr: tr, known: map[int64]string{}}
	for _, t := range all {
		one := Steps{Steps: t.Steps, Percent: percent(t.In, t.Kernels), Kinds: []StepsKind{}}
		if s := tr.Session(t.Session); s != nil {
			one.PID = s.Process.ID.PID
		}
		names.absent(tr.DB.QueryRow("SELECT tid FROM rtl_thread WHERE id = ?", t.ID).Scan(&one.Thread))
		if t.Marker != 0 {
			one.Marker = names.of(t.Marker)
		}
		for i := range t.Kinds {
			one.Kinds = append(one.Kinds, names.kind(&t.Kinds[i]))
		}
		r.Steps = append(r.Steps, one)
	}
	return names.err
}

// stepNames reads the names of kernels, and holds the first error.
type stepNames struct {
	tr    *traceread.Trace
	known map[int64]string
	err   error
}

func (n *stepNames) absent(err error) {
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		n.err = errors.Join(n.err, err)
	}
}

func (n *stepNames) of(id int64) string {
	if name, known := n.known[id]; known {
		return name
	}
	name := unnamed
	n.absent(n.tr.DB.QueryRow("SELECT substr(string, 1, ?) FROM rocpd_string WHERE id = ?", traceread.LongestName, id).Scan(&name))
	n.known[id] = name
	return name
}

func (n *stepNames) kind(k *steps.Kind) StepsKind {
	one := StepsKind{
		Kernels: k.Kernels, PartKernels: int64(k.Part.Kernels), PartTimes: int64(k.Part.Times), Steps: k.Steps, TotalNS: k.TotalNS, P50NS: k.P50NS, P99NS: k.P99NS,
		MaxNS: k.MaxNS, IdleNS: k.IdleNS, IdleP50NS: k.IdleP50NS, GapP50NS: k.GapP50NS, Different: k.Different, Slow: k.Slow, Outliers: []StepsOne{},
	}
	if k.Kernels > 0 {
		one.First = n.of(k.First)
	}
	if one.PartTimes == 0 {
		one.PartKernels = 0
	}
	for _, o := range k.Outliers {
		out := StepsOne{Number: o.Number, BeginNS: o.StartNS, LengthNS: o.DurationNS, IdleNS: o.IdleNS, Differences: []StepDifference{}}
		for _, d := range o.Differences {
			out.Differences = append(out.Differences, StepDifference{What: d.What, Kernel: n.of(d.Name), Kernels: d.Kernels, NS: d.NS, UsualNS: d.UsualNS})
		}
		one.Outliers = append(one.Outliers, out)
	}
	return one
}

// What the text has: threads, kinds of each, outliers of each kind.
const (
	stepThreadsShown  = 4
	stepKindsShown    = 4
	stepOutliersShown = 3
)

func (r *Report) writeSteps(b *bytes.Buffer, fullNames bool) {
	for i, one := range r.Steps[:min(len(r.Steps), stepThreadsShown)] {
		label := ""
		if i == 0 {
			label = "Steps"
		}
		by := "found by the kernels' sequence"
		if one.Marker != "" {
			by = "of the marker " + sanitize.Text(shorten(one.Marker, nameWidth))
		}
		line(b, label, "thread %d: %s, %s (%s of its kernels)", one.Thread, humanize.Things(one.Steps, "step"), by, humanize.Percent(one.Percent))
		for j := range one.Kinds[:min(len(one.Kinds), stepKindsShown)] {
			r.writeStepsKind(b, &one.Kinds[j], fullNames)
		}
	}
	if n := len(r.Steps) - stepThreadsShown; n > 0 {
		line(b, "", "and %s with steps", humanize.Things(n, "thread"))
	}
}

func (r *Report) writeStepsKind(b *bytes.Buffer, k *StepsKind, fullNames bool) {
	what := "various kernels"
	if k.Kernels > 0 {
		what = humanize.Things(k.Kernels, "kernel")
		if k.PartTimes > 0 {
			what += fmt.Sprintf(" (%d of them %d times)", k.PartKernels, k.PartTimes)
		}
		what += " from " + kernelName(k.First, fullNames)
	}
	line(b, "", " %s of %s: p50 %s  p99 %s  max %s  idle p50 %s (%s), gap before p50 %s", humanize.Things(k.Steps, "step"), what,
		duration(k.P50NS), duration(k.P99NS), duration(k.MaxNS), duration(k.IdleP50NS), humanize.Percent(percent(k.IdleNS, k.TotalNS)), duration(k.GapP50NS))
	if k.Slow+k.Different > 0 {
		line(b, "", "  %s took over 1.5 × p50, %s missing or additional kernels", humanize.Count(k.Slow), humanize.Count(k.Different))
	}
	for _, o := range k.Outliers[:min(len(k.Outliers), stepOutliersShown)] {
		line(b, "", "  step %s at %s: %s%s", humanize.Count(o.Number), duration(o.BeginNS-r.ZeroNS), duration(o.LengthNS), differencesText(o.Differences, fullNames))
	}
}

func differencesText(all []StepDifference, fullNames bool) string {
	var parts []string
	for _, d := range all {
		name, times := kernelName(d.Kernel, fullNames), ""
		if d.Kernels > 1 {
			times = fmt.Sprintf("%d × ", d.Kernels)
		}
		switch d.What {
		case steps.Longer:
			parts = append(parts, fmt.Sprintf("%s%s %s longer", times, name, duration(d.NS)))
		case steps.Idle:
			parts = append(parts, fmt.Sprintf("idle %s longer, most of it before %s", duration(d.NS), name))
		default:
			parts = append(parts, fmt.Sprintf("%s%s %s", times, name, d.What))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// stepRows and outlierRows are the CSV tables of steps.
func stepRows(r *Report) (rows [][]any) {
	for i := range r.Steps {
		s := &r.Steps[i]
		for j := range s.Kinds {
			k := &s.Kinds[j]
			rows = append(rows, []any{
				s.PID, s.Thread, s.Marker, k.First, k.Kernels, k.PartKernels, k.PartTimes, k.Steps, k.TotalNS, k.P50NS, k.P99NS, k.MaxNS,
				k.IdleNS, k.IdleP50NS, k.GapP50NS, k.Different, k.Slow,
			})
		}
	}
	return rows
}

func outlierRows(r *Report) (rows [][]any) {
	for i := range r.Steps {
		s := &r.Steps[i]
		for j := range s.Kinds {
			for _, o := range s.Kinds[j].Outliers {
				head := []any{s.PID, s.Thread, s.Kinds[j].First, o.Number, o.BeginNS, o.LengthNS, o.IdleNS}
				if len(o.Differences) == 0 {
					rows = append(rows, append(head, nil, nil, nil, nil, nil))
				}
				for _, d := range o.Differences {
					rows = append(rows, slices.Concat(head, []any{d.What, d.Kernel, d.Kernels, d.NS, d.UsualNS}))
				}
			}
		}
	}
	return rows
}
