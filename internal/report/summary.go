// Package report turns a trace file into what people and scripts read: a report,
// and the summary at the end of a recording, as text, JSON or CSV.
package report

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// SummaryVersion changes when a field of Summary changes its meaning or goes;
// new fields may come without.
const SummaryVersion = 1

// Summary is the closing summary of a trace. Its JSON form is stable. Times
// are nanoseconds; names are as the file has them, not fit for a terminal.
type Summary struct {
	Version       int            `json:"version"`
	Command       string         `json:"-"` // by which a user runs the tool; empty: rtl-attach
	File          string         `json:"file"`
	SizeBytes     int64          `json:"size_bytes"`
	Sessions      []Session      `json:"sessions"`
	Coverage      Coverage       `json:"coverage"`
	GPUs          []GPU          `json:"gpus"`
	Kernels       []Kernel       `json:"kernels"`        // the longest in all, first
	KernelsInAll  int64          `json:"kernels_in_all"` // different names
	LaunchToStart *LaunchToStart `json:"launch_to_start,omitempty"`
	Kinds         map[string]any `json:"kinds,omitempty"` // what was recorded beside dispatches, by the kinds' names
	Losses        []Loss         `json:"losses"`          // empty: nothing was lost
	LeftOut       int64          `json:"left_out"`        // dispatches with impossible times, or nothing to belong to
	Pauses        Pauses         `json:"pauses"`
	Common        *Common        `json:"common_window,omitempty"` // of several processes recorded together
	Processes     []Process      `json:"processes,omitempty"`     // these

	sections []*kind.Section // of Kinds
}

// Session is one recording of one process.
type Session struct {
	ID         int64  `json:"id"`
	PID        int64  `json:"pid"`
	Command    string `json:"command"`
	Host       string `json:"host"`
	BegunNS    int64  `json:"begun_ns"`
	ArmedNS    int64  `json:"armed_ns,omitempty"`
	DetachedNS int64  `json:"detached_ns,omitempty"`
	Complete   bool   `json:"complete"` // false: its accounts were never settled, or not yet
	InProgress bool   `json:"in_progress,omitempty"`
	EndReason  string `json:"end_reason,omitempty"`

	// The declared window: busy and idle times are of it.
	WindowStartNS int64 `json:"window_start_ns,omitempty"`
	WindowEndNS   int64 `json:"window_end_ns,omitempty"` // not complete: up to when it is known what ran

	session *traceread.Session
}

// Coverage is what was seen. Dispatches is how many the payload published while
// recording: Timed + Untimed + Unexplained of them. Queues that no window
// covers, and dispatches in windows that never closed, are not in it.
type Coverage struct {
	QueuesSeen     int64     `json:"queues_seen"`
	QueuesRecorded int64     `json:"queues_recorded"`
	Dispatches     int64     `json:"dispatches"`
	Timed          int64     `json:"timed"`
	Untimed        []Untimed `json:"untimed"`
	Unexplained    int64     `json:"unexplained"`   // published, and neither timed nor accounted for
	Surplus        int64     `json:"surplus"`       // arrived, and never published: the numbers are wrong
	AfterDetach    int64     `json:"after_detach"`  // slots claimed while active and published after the detach
	RawBefore      int64     `json:"raw_before"`    // claims after the attach, before their queue was recorded
	QueuedBefore   int64     `json:"queued_before"` // packets of any type in front of the windows: what ran of them is not in the trace
	RawUnseen      int64     `json:"raw_unseen"`    // claims after the attach on queues that were not known, or never recorded
	QueuesForeign  int64     `json:"queues_foreign"`
	WindowsOpen    int64     `json:"windows_open"` // of queues whose end was not seen
}

// Untimed is a number of dispatches without times.
type Untimed struct {
	Reason  string `json:"reason"`
	Text    string `json:"text"`
	Packets int64  `json:"packets"`
}

// GPU is how busy a device was. Kernels that overlap count once. With
// dispatches missing, it was busy for at least that long.
type GPU struct {
	ID   int64  `json:"id"` // as this trace numbers them
	Name string `json:"name"`
	Place
	Dispatches int64 `json:"dispatches"`
	Busy
	AtLeast      bool    `json:"at_least"`
	Coverage     Seen    `json:"coverage"`
	GapsInAll    int64   `json:"gaps_in_all"` // between two kernels
	LongestGapNS int64   `json:"longest_gap_ns"`
	Gaps         []Cause `json:"gaps"` // by their causes, the longest in all first
}

// Place is which of the machine's devices it is.
type Place struct {
	PCI        string `json:"pci,omitempty"`         // bus:device.function, hexadecimal, before it a domain other than 0; "": not known
	DriverNode *int64 `json:"driver_node,omitempty"` // as the runtime counts the nodes that the process may use; nil: not known
}

// placeOf writes the PCI address as people know it.
func placeOf(a *traceread.Agent) Place {
	p := Place{DriverNode: a.DriverNode}
	if bdf := a.BDF; bdf != nil {
		p.PCI = fmt.Sprintf("%02x:%02x.%x", *bdf>>8&0xff, *bdf>>3&0x1f, *bdf&7)
		if domain := uint32(*bdf >> 32); domain != 0 {
			p.PCI = fmt.Sprintf("%04x:%s", domain, p.PCI)
		}
	}
	return p
}

// Kernel is one name with all of its dispatches. Percent is of the time of all kernels.
type Kernel struct {
	Name    string  `json:"name"`
	Calls   int64   `json:"calls"`
	TotalNS int64   `json:"total_ns"`
	AvgNS   int64   `json:"avg_ns"`
	MinNS   int64   `json:"min_ns"`
	MaxNS   int64   `json:"max_ns"`
	Percent float64 `json:"percent"`
}

// LaunchToStart is the time from the claim of the slot to the start on the GPU,
// of the dispatches whose submit was stamped; the percentiles are right to 0.4 %.
type LaunchToStart struct {
	Dispatches int64 `json:"dispatches"`
	P50NS      int64 `json:"p50_ns"`
	P90NS      int64 `json:"p90_ns"`
	P99NS      int64 `json:"p99_ns"`
	P999NS     int64 `json:"p99_9_ns"`
	MaxNS      int64 `json:"max_ns"` // exact
}

// Loss is a number of records that are missing.
type Loss struct {
	Cause   string `json:"cause"`
	Records int64  `json:"records"`
}

// Clocks of Pauses.
const (
	KernelClock = "kernel" // Scheduler
	ToolClock   = "tool"
)

// Pauses are the stops of the target's threads, by the tool's own clock: from the
// request to stop until the tool has let go. A thread that waits for a processor
// before it can stop makes that longer, though it was asleep all the while.
type Pauses struct {
	Stops     int64      `json:"stops"`
	Threads   int64      `json:"threads"`
	TotalNS   int64      `json:"total_ns"`
	WorstNS   int64      `json:"worst_ns"`
	Scheduler *Scheduler `json:"scheduler,omitempty"` // nil: not known of all stops
	Clock     string     `json:"clock"`               // by which the summary's text says them: KernelClock where Scheduler is known
}

// Scheduler has the same stops by the kernel's scheduling events: from the moment when a
// thread was switched out, stopped, until it was woken. That is the time in which it
// could not run because of the tool, the tool's own waits for a processor included, and
// the thread's excluded. A thread that is held over its calls has several for one.
type Scheduler struct {
	Stops   int64 `json:"stops"`
	TotalNS int64 `json:"total_ns"`
	WorstNS int64 `json:"worst_ns"`
}

// Summarize reads a trace. It names at most kernels different kernels.
func Summarize(path string, kernels int) (*Summary, error) {
	r, err := Make(path, Options{Kernels: kernels})
	if err != nil {
		return nil, err
	}
	return &r.Summary, nil
}

// readAccounts fills in what was settled when the recording ended.
func (s *Summary) readAccounts(tr *traceread.Trace) error {
	s.fillSessions(tr)
	s.fillCoverage(tr)
	s.fillLosses(tr)
	s.fillProcesses(tr)
	for _, step := range []struct {
		what string
		read func(*traceread.Trace) error
	}{
		{"untimed dispatches", s.readUntimed},
		{"pauses", s.readPauses},
	} {
		if err := step.read(tr); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// Complete says that every dispatch published while recording is in the trace with its times.
func (c Coverage) Complete() bool {
	return c.Timed == c.Dispatches && c.Surplus == 0 && c.WindowsOpen == 0 && c.QueuesRecorded == c.QueuesSeen &&
		c.RawBefore == 0 && c.RawUnseen == 0 && c.QueuesForeign == 0 // AfterDetach is no gap: those ran after the recording
}
