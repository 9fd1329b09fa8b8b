package report

import (
	"fmt"
	"os"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Report is a Summary with more detail. Its JSON form is stable and described in
// docs/json.md. Idle is recorded time in which no recorded kernel ran; Coverage says how
// many kernels were recorded.
type Report struct {
	Summary
	ZeroNS      int64         `json:"zero_ns"`          // begin of the first declared window: --window counts from it
	Window      *Window       `json:"window,omitempty"` // nil: the whole recording
	Groups      []Group       `json:"kernel_groups"`    // the largest total time first
	GroupsInAll int64         `json:"kernel_groups_in_all"`
	Queues      []Queue       `json:"queues"`
	LongestGaps []Gap         `json:"longest_gaps"`
	PerProcess  []PerProcess  `json:"per_process"`
	Steps       []Steps       `json:"steps,omitempty"`    // absent: none were found
	GapCauses   bool          `json:"-"`                  // the text has the causes of the longest gaps
	WhyIdle     *WhyIdle      `json:"why_idle,omitempty"` // absent: threads were not observed
	Ranks       *ranks.Result `json:"ranks,omitempty"`    // absent: the trace has no collectives
}

// Window is the part of the recording that a report covers. It counts kernels that start
// in the window, and cuts busy and idle times at its ends. Coverage, Losses and Pauses
// cover the whole recording.
type Window struct {
	BeginNS   int64 `json:"begin_ns"`
	EndNS     int64 `json:"end_ns"`
	FirstStep int64 `json:"first_step,omitempty"` // 0: it is not that of steps
	LastStep  int64 `json:"last_step,omitempty"`
}

// Group is the kernels whose names differ only in template arguments and parameters.
type Group struct {
	Kernel
	Variants int64 `json:"variants"`
}

// Seen is how many dispatches were published, and how many of them are timed, or timed and
// left out by a filter. Complete is false if others may have run.
type Seen struct {
	Dispatches int64 `json:"dispatches"`
	Timed      int64 `json:"timed"`
	Complete   bool  `json:"complete"`
	Filtered   int64 `json:"filtered,omitempty"`
}

// Busy is the part of a recorded time in which at least one kernel ran.
type Busy struct {
	BusyNS     int64   `json:"busy_ns"`
	IdleNS     int64   `json:"idle_ns"`
	RecordedNS int64   `json:"recorded_ns"`
	Percent    float64 `json:"percent"`
}

// Queue is one queue of one session.
type Queue struct {
	ID         int64 `json:"id"`
	HSAID      int64 `json:"hsa_id"` // -1: not known
	GPU        int64 `json:"gpu"`
	PID        int64 `json:"pid"`
	Session    int64 `json:"session"`
	Dispatches int64 `json:"dispatches"`         // timed, in the window
	Filtered   int64 `json:"filtered,omitempty"` // left out, in the window
	Busy
	Coverage Seen `json:"coverage"`
}

// Cause is a probable cause of gaps, with their number and times. A gap can have several.
type Cause struct {
	Name      string `json:"name"`
	Text      string `json:"text"`
	Gaps      int64  `json:"gaps"`
	TotalNS   int64  `json:"total_ns"`
	LongestNS int64  `json:"longest_ns"`
}

// Gap is a time in which no recorded kernel ran on a GPU.
type Gap struct {
	GPU      int64  `json:"gpu"`
	BeginNS  int64  `json:"begin_ns"`  // begin of its recorded part in the window
	LengthNS int64  `json:"length_ns"` // of its recorded parts in the window
	Cause    string `json:"cause"`     // the name of the cause with the most time
	HostNS   int64  `json:"host_ns"`   // the part before the submit of the next kernel
	Next     string `json:"next"`      // the kernel that ended the gap
	Queue    int64  `json:"queue"`     // the next kernel's queue
	TID      int64  `json:"tid"`       // the thread that submitted the next kernel; 0: not known

	Causes []IdleCause `json:"causes,omitempty"` // of the host's part, with their stacks: only if threads were observed
}

// PerProcess is one recorded process on all of its GPUs; Busy is the sum over them.
// InWindow counts the dispatches that start in the time of Busy: the common window, if
// there is one.
type PerProcess struct {
	PID           int64          `json:"pid"`
	Rank          *int64         `json:"rank,omitempty"`
	Command       string         `json:"command"`
	Host          string         `json:"host"`
	Sessions      int64          `json:"sessions"`
	GPUs          []int64        `json:"gpus"`
	Dispatches    int64          `json:"dispatches"`
	InWindow      int64          `json:"in_window"`
	LaunchToStart *LaunchToStart `json:"launch_to_start,omitempty"`
	Busy
	Coverage Seen `json:"coverage"`
}

// Options select the content of a report.
type Options struct {
	Kernels int              // the most kernels, and groups of kernels, to list; 0: all
	Window  *Span            // nil: the whole recording
	Steps   *steps.Selection // nil: Window
	Gaps    int              // how many of the longest gaps to list, with their causes; 0: mostGaps, without
	NoWhy   bool             // do not look for the causes of idle times in threads and other ranks

	TopCauses bool           // look for the causes of idle times in threads only, and only if the trace is small, for a summary
	Filter    *filter.Filter // nil: everything that was recorded

	Collectives *collectives.Patterns // the names of collectives' kernels; nil: collectives.Default
}

// Span is a time since the begin of a trace's first declared window, in ns.
type Span struct {
	FromNS, UntilNS int64 // UntilNS 0: to the end
}

// Make reads the trace at path and returns the report. Its errors wrap traceread's and
// tracedb's.
func Make(path string, o Options) (*Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	tr, err := traceread.OpenFiltered(background, path, o.Filter)
	if err != nil {
		return nil, err
	}
	defer tr.Close()
	r := &Report{GapCauses: o.Gaps > 0, Summary: Summary{Version: SummaryVersion, File: path, SizeBytes: info.Size()}}
	if err := r.read(tr, o); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, traceread.Explain(err))
	}
	return r, nil
}

func (r *Report) read(tr *traceread.Trace, o Options) error {
	if err := r.readAccounts(tr); err != nil {
		return err
	}
	r.fillFilters(tr, o)
	if err := r.readLeftOut(tr, o.Kernels); err != nil {
		return err
	}
	r.ZeroNS = tr.ZeroNS()
	window := r.setWindow(o.Window)
	selected, err := r.selectSteps(tr, o.Steps)
	if err != nil {
		return err
	}
	if selected != nil {
		window = selected.Window
	}
	if o.TopCauses {
		if o.NoWhy, err = r.skipsCauses(tr); err != nil {
			return err
		}
	}
	w := windows{window: window, counted: window, gaps: o.Gaps}
	if err := w.askWhy(tr, o); err != nil {
		return err
	}
	if r.Window != nil {
		r.Common = nil // busy times are of the requested window
	}
	common, cut := r.cut()
	if cut {
		w.window = common
	}
	var found *ranks.Analysis
	if !o.NoWhy && !o.TopCauses {
		if found, err = ranks.Find(background, tr, ranks.Options{Window: w.window, Patterns: o.Collectives}); err != nil {
			return err
		}
	}
	a, err := analyse(tr, w, found)
	if err != nil {
		return err
	}
	defer a.close()
	if cut {
		r.Common.Inside, r.Common.Outside = a.inside, a.leftOut+a.came()-a.inside
	}
	r.LeftOut = a.leftOut
	r.countCutOff(a)
	r.Coverage.QueuedBefore = a.queuedBefore()
	r.LaunchToStart = launchToStart(&a.latency)
	if err := r.readKinds(tr, a, window); err != nil {
		return err
	}
	if err := r.readSteps(tr, window, selected); err != nil {
		return err
	}
	r.fillGPUs(a)
	r.fillQueues(a)
	r.fillPerProcess(a)
	if r.Kernels, r.KernelsInAll, err = a.kernels.top(o.Kernels); err != nil {
		return err
	}
	if r.Groups, r.GroupsInAll, err = a.kernels.groups(o.Kernels); err != nil {
		return err
	}
	if err := r.fillLongest(tr, a); err != nil {
		return err
	}
	if err := r.fillRanks(tr, a); err != nil {
		return err
	}
	if err := r.fillWhy(tr, a); err != nil || !o.TopCauses || r.WhyIdle == nil {
		return err
	}
	r.fillIdleCauses(r.WhyIdle)
	return nil
}

// setWindow converts the requested window to CLOCK_BOOTTIME.
func (r *Report) setWindow(s *Span) traceread.Span {
	if s == nil {
		return traceread.Always
	}
	window := traceread.Span{BeginNS: r.ZeroNS + min(s.FromNS, traceread.LatestNS/2), EndNS: traceread.LatestNS}
	if s.UntilNS > 0 {
		window.EndNS = r.ZeroNS + min(s.UntilNS, traceread.LatestNS/2)
	}
	r.Window = &Window{BeginNS: window.BeginNS, EndNS: window.EndNS}
	return window
}

// Dispatched returns how many dispatches the report counts.
func (r *Report) Dispatched() (n int64) {
	for i := range r.GPUs {
		n += r.GPUs[i].Dispatches
	}
	return n
}
