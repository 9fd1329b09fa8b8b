// Package report makes reports on a trace file, and the summary at the end of a
// recording, as text, JSON or CSV.
package report

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// SummaryVersion changes when a field of Summary or Report changes its meaning or is
// removed, not when fields are added.
const SummaryVersion = 1

// Summary is the summary at the end of a recording. Its JSON form is stable and described
// in docs/json.md. Times are nanoseconds; names are as in the file: sanitize them for a
// terminal.
type Summary struct {
	Version        int            `json:"version"`
	Command        string         `json:"-"` // the command that runs the tool, for texts; empty: rtl-attach
	File           string         `json:"file"`
	SizeBytes      int64          `json:"size_bytes"`
	Sessions       []Session      `json:"sessions"`
	Coverage       Coverage       `json:"coverage"`
	GPUs           []GPU          `json:"gpus"`
	Filters        []Filter       `json:"filters,omitempty"`
	Kernels        []Kernel       `json:"kernels"`                           // the largest total time first
	KernelsInAll   int64          `json:"kernels_in_all"`                    // different names
	LeftOutKernels []LeftOut      `json:"filtered_kernels,omitempty"`        // of the whole recording, the largest total time first
	LeftOutInAll   int64          `json:"filtered_kernels_in_all,omitempty"` // different names
	LaunchToStart  *LaunchToStart `json:"launch_to_start,omitempty"`
	Kinds          map[string]any `json:"kinds,omitempty"` // further kinds of record, by their names
	Unavailable    []Unavailable  `json:"unavailable,omitempty"`
	Losses         []Loss         `json:"losses"`   // empty: nothing was lost
	LeftOut        int64          `json:"left_out"` // dispatches with impossible times, or without a valid context
	Pauses         Pauses         `json:"pauses"`
	Rates          []Rates        `json:"rates,omitempty"`
	IdleCauses     *IdleCauses    `json:"idle_causes,omitempty"`   // of Summarize only; absent: threads were not observed
	Common         *Common        `json:"common_window,omitempty"` // several processes recorded together
	Processes      []Process      `json:"processes,omitempty"`     // several processes recorded together

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
	Complete   bool   `json:"complete"` // false: the recorder has not written the final accounts
	InProgress bool   `json:"in_progress,omitempty"`
	EndReason  string `json:"end_reason,omitempty"`

	// The declared window: busy and idle times are of this time.
	WindowStartNS int64 `json:"window_start_ns,omitempty"`
	WindowEndNS   int64 `json:"window_end_ns,omitempty"` // not Complete: the time up to which the records are complete

	Trigger *Trigger `json:"trigger,omitempty"` // of a flight recorder, which has written the session

	session *traceread.Session
}

// Trigger is what has made a flight recorder write a session.
type Trigger struct {
	Number       uint64 `json:"number"`
	Expression   string `json:"expression"`
	Value        string `json:"value,omitempty"`
	FiredNS      uint64 `json:"fired_ns"`
	LimitedBy    string `json:"limited_by"`    // why the window does not begin earlier: time, size, start
	OlderRecords uint64 `json:"older_records"` // not kept, and not lost
	Ignored      uint64 `json:"ignored"`       // further times that triggers fired before
}

// Unavailable is a kind of record that was asked for and could not be recorded in some sessions.
type Unavailable struct {
	Kind     string `json:"kind"` // its name in the trace: memory-copy, …
	Reason   string `json:"reason"`
	Sessions int64  `json:"sessions"`
}

// Coverage is the account of dispatches. Dispatches is how many were published to recorded
// queues: the sum of Timed, Filtered, Untimed and Unexplained. It excludes queues without a window,
// and dispatches in windows that never closed.
type Coverage struct {
	QueuesSeen     int64     `json:"queues_seen"`
	QueuesRecorded int64     `json:"queues_recorded"`
	Dispatches     int64     `json:"dispatches"`
	Timed          int64     `json:"timed"`
	Filtered       int64     `json:"filtered,omitempty"` // timed, and left out by filters: they count as busy
	Untimed        []Untimed `json:"untimed"`
	Unexplained    int64     `json:"unexplained"`               // published, and no record accounts for them
	Surplus        int64     `json:"surplus"`                   // recorded, but never published: the numbers are wrong
	AfterDetach    int64     `json:"after_detach"`              // slots claimed while active and published after the detach
	RawBefore      int64     `json:"raw_before"`                // claims after the attach, before their queue was recorded
	QueuedBefore   int64     `json:"queued_before"`             // packets of any type in front of the windows: they may run unrecorded
	RawUnseen      int64     `json:"raw_unseen"`                // claims after the attach on queues that were not known yet, or never recorded
	QueuesForeign  int64     `json:"queues_foreign"`            // of other tools, or without hardware: not recorded
	QueuesExcluded int64     `json:"queues_excluded,omitempty"` // of GPUs that the recording's --gpu leaves out: untouched, and nothing else counts them
	WindowsOpen    int64     `json:"windows_open"`              // windows without an end: what was in flight is not known
}

// Untimed is a number of dispatches without times.
type Untimed struct {
	Reason  string `json:"reason"`
	Text    string `json:"text"`
	Packets int64  `json:"packets"`
}

// GPU has the busy and idle times of a device. Overlapping kernels count once. If
// dispatches are missing, the device was busy for at least this time.
type GPU struct {
	ID   int64  `json:"id"` // in this trace
	Name string `json:"name"`
	Place
	Dispatches int64 `json:"dispatches"`         // timed
	Filtered   int64 `json:"filtered,omitempty"` // left out, in the window
	Busy
	AtLeast      bool    `json:"at_least"` // not Coverage.Complete
	Coverage     Seen    `json:"coverage"`
	GapsInAll    int64   `json:"gaps_in_all"` // between two kernels
	LongestGapNS int64   `json:"longest_gap_ns"`
	Gaps         []Cause `json:"gaps"` // the largest total time first
}

// Place identifies a device of the machine.
type Place struct {
	PCI        string `json:"pci,omitempty"`         // bus:device.function, hexadecimal, after a domain other than 0; "": not known
	DriverNode *int64 `json:"driver_node,omitempty"` // the runtime's number among the nodes that the process may use; nil: not known
}

// placeOf formats the PCI address as lspci does.
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

// Kernel is one kernel name with all of its dispatches. Percent is the share of the time
// of all kernels.
type Kernel struct {
	Name    string  `json:"name"`
	Calls   int64   `json:"calls"`
	TotalNS int64   `json:"total_ns"`
	AvgNS   int64   `json:"avg_ns"`
	MinNS   int64   `json:"min_ns"`
	MaxNS   int64   `json:"max_ns"`
	Percent float64 `json:"percent"`
}

// LaunchToStart is the time from the claim of the slot to the start on the GPU, for the
// dispatches whose submit time is known. Percentiles are right to 0.4 %.
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

// Pauses are the stops of the target's threads by the tool's own clock: from the request
// to stop until the release. That includes the time in which a sleeping thread waits for a
// processor before it can stop.
type Pauses struct {
	Stops     int64      `json:"stops"`
	Threads   int64      `json:"threads"`
	TotalNS   int64      `json:"total_ns"`
	WorstNS   int64      `json:"worst_ns"`
	Scheduler *Scheduler `json:"scheduler,omitempty"` // nil: not known for all stops
	Clock     string     `json:"clock"`               // the clock of the summary's text: KernelClock if Scheduler is known
}

// Scheduler has the same stops by the kernel's scheduling events: from the moment when the
// kernel switched the stopped thread out until the tool woke it. In that time the thread
// could not run because of the tool. It includes the tool's waits for a processor, and
// excludes the thread's. A thread held over several calls has several of these stops for
// one of the tool's.
type Scheduler struct {
	Stops   int64 `json:"stops"`
	TotalNS int64 `json:"total_ns"`
	WorstNS int64 `json:"worst_ns"`
}

// Summarize reads a trace. It names at most kernels different kernels.
func Summarize(path string, kernels int) (*Summary, error) {
	r, err := Make(path, Options{Kernels: kernels, TopCauses: true})
	if err != nil {
		return nil, err
	}
	return &r.Summary, nil
}

// readAccounts fills in the accounts that the recorder wrote at the end.
func (s *Summary) readAccounts(tr *traceread.Trace) error {
	if err := s.fillSessions(tr); err != nil {
		return err
	}
	s.fillCoverage(tr)
	s.fillUnavailable(tr)
	s.fillLosses(tr)
	s.fillProcesses(tr)
	for _, step := range []struct {
		what string
		read func(*traceread.Trace) error
	}{
		{"untimed dispatches", s.readUntimed},
		{"pauses", s.readPauses},
		{"rates", s.readRates},
	} {
		if err := step.read(tr); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// Complete reports whether the trace has every dispatch published while recording, with
// its times.
func (c Coverage) Complete() bool {
	return c.Timed+c.Filtered == c.Dispatches && c.Surplus == 0 && c.WindowsOpen == 0 && c.QueuesRecorded == c.QueuesSeen &&
		c.RawBefore == 0 && c.RawUnseen == 0 && c.QueuesForeign == 0 // not AfterDetach: these ran after the recording
}
