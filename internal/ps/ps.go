// Package ps lists the processes that use ROCm, or could, with the front ends of their servers,
// and predicts for each whether an attach would work. It touches none of them.
package ps

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Process uses ROCm, or could, or is the parent of such processes. Its JSON form is stable
// (docs/json.md). The process chooses its texts: sanitize them before printing.
type Process struct {
	PID         int    `json:"pid"`
	PPID        int    `json:"ppid,omitempty"`
	Parent      int    `json:"parent,omitempty"` // the nearest ancestor that is listed
	Workers     []int  `json:"workers,omitempty"`
	UID         int    `json:"uid"`
	Command     string `json:"command"`
	CommandLine string `json:"command_line,omitempty"`
	ROCm        string `json:"rocm,omitempty"`    // "6.4.3", or "runtime 1.5.0"
	Runtime     string `json:"runtime,omitempty"` // its file
	Container   string `json:"container,omitempty"`
	Rank        *int   `json:"rank,omitempty"`
	LocalRank   *int   `json:"local_rank,omitempty"`
	GPUs        []int  `json:"gpus,omitempty"` // in use, if the driver lists them; else GPUs that it has open
	DriverOpen  bool   `json:"driver_open"`    // /dev/kfd
	Payload     string `json:"payload,omitempty"`
	Recorder    uint32 `json:"recorder_pid,omitempty"`
	Tracer      string `json:"traced_by,omitempty"` // "strace (pid 12)"

	State    string           `json:"state"` // ready, attached, unclear, blocked
	Why      string           `json:"why,omitempty"`
	Fix      string           `json:"fix,omitempty"`
	ExitCode failure.ExitCode `json:"exit_code"` // of an attach
}

// Listing is the result of List. Its JSON form is stable (docs/json.md).
type Listing struct {
	Version   string    `json:"version"` // of this tool
	Processes []Process `json:"processes"`
	Denied    int       `json:"denied"`           // processes that this user may not read
	Unread    []Unread  `json:"unread,omitempty"` // the denied processes
	Silent    []int     `json:"silent,omitempty"` // pids that could not be read, or not in time
	Complete  bool      `json:"complete"`         // none is denied or silent
	parents   map[int]int
}

// Unread is a process that this user may not read: it may use ROCm.
type Unread struct {
	PID     int    `json:"pid"`
	Command string `json:"command,omitempty"`
}

// UnreadNames lists the processes that this user may not read by their names.
func (l *Listing) UnreadNames() string {
	var list []discover.Process
	for _, u := range l.Unread {
		list = append(list, discover.Process{PID: u.PID, Command: u.Command})
	}
	return discover.Names(list)
}

// States of a process.
const (
	stateReady    = "ready"
	stateAttached = "attached"
	stateUnclear  = "unclear"
	stateBlocked  = "blocked"
)

const (
	endLimit = time.Second // for a process that has begun to exit

	glanceSilence = 3 * resident.BeatPeriod // wait for a heartbeat of a recorder in another pid namespace
)

// List finds the processes that have the ROCm runtime mapped or the GPU driver open. It omits
// processes that end meanwhile. version is this tool's.
func List(version string) (*Listing, error) {
	if err := target.CheckProc(); err != nil {
		f := failure.Explain("look into", 0, err, failure.Untouched)
		f.What = "cannot list processes: " + failure.FirstLine(err)
		return nil, f
	}
	pids, err := target.All()
	if err != nil {
		return nil, notListed(err)
	}
	l := &Listing{Version: version, Processes: []Process{}, parents: map[int]int{}}
	deadline := time.Now().Add(discover.ListLimit)
	for _, pid := range pids {
		l.add(pid, min(discover.LookLimit, time.Until(deadline)))
	}
	l.addFrontEnds(deadline)
	l.relate()
	l.Complete = l.Denied == 0 && len(l.Silent) == 0
	return l, nil
}

func notListed(err error) *failure.Error {
	return &failure.Error{
		What: "cannot list processes: " + failure.FirstLine(err), Cause: "/proc does not say which processes there are",
		Fix: "look at how /proc is mounted, and at this tool's limits (ulimit -n)", Target: failure.Untouched, Code: failure.Failed, Err: err,
	}
}

// glance is the result of the examination of one process.
type glance struct {
	process *Process // nil: no ROCm process
	parent  int
	err     error
}

// add examines a process for at most limit.
func (l *Listing) add(pid int, limit time.Duration) {
	g, inTime := discover.Within(limit, func() glance { return glanceAt(pid) })
	if g.parent != 0 {
		l.parents[pid] = g.parent
	}
	switch {
	case !inTime:
		l.Silent = append(l.Silent, pid)
	case g.process != nil:
		l.Processes = append(l.Processes, *g.process)
	case errors.Is(g.err, target.ErrDenied):
		info, _ := target.ProcInfoOf(pid) // every user may read its name
		l.Denied, l.Unread = l.Denied+1, append(l.Unread, Unread{PID: pid, Command: info.Comm})
	case g.err != nil && !target.IsAbsent(g.err):
		l.Silent = append(l.Silent, pid)
	}
}

func glanceAt(pid int) glance {
	t, err := target.OpenLight(pid)
	if err != nil {
		return glance{err: err}
	}
	defer t.Close()
	g := glance{parent: t.Parent}
	maps, err := t.Maps()
	if err != nil {
		g.err = err
		return g
	}
	devices, err := t.Devices()
	if err != nil {
		g.err = err
		return g
	}
	runtimes := target.Runtimes(maps)
	if len(runtimes) == 0 && !devices.KFD {
		return g
	}
	g.process = describe(t, runtimes, devices)
	// If the process has ended, another one may have its pid; an exiting process has no memory any
	// more.
	if !t.Alive() || t.WaitGone(endLimit) != nil {
		g.process = nil
	}
	return g
}

func describe(t *target.Target, runtimes []string, devices target.Devices) *Process {
	p := introduce(t)
	p.DriverOpen, p.GPUs = devices.KFD, gpusOf(t, devices)
	if len(runtimes) > 0 {
		p.Runtime, p.ROCm = runtimes[0], discover.ROCmVersion(runtimes[0])
	}
	p.Rank, p.LocalRank = discover.RanksOf(t)
	if tracer := t.Tracer(); tracer != 0 {
		p.Tracer = tracerName(t.Traced(tracer))
	}
	p.judge(t)
	return p
}

// introduce returns the properties that every process has.
func introduce(t *target.Target) *Process {
	p := &Process{PID: t.PID, PPID: t.Parent, UID: t.UID, Command: t.Comm}
	p.CommandLine, _ = t.CommandLine()
	if groups, err := t.ControlGroups(); err == nil {
		p.Container = containerOf(groups)
	}
	if p.Container == "" && !t.SharesPIDs() {
		p.Container = "another pid namespace"
	}
	return p
}

func tracerName(err error) string {
	var traced *target.TracedError
	switch {
	case !errors.As(err, &traced):
		return ""
	case traced.Tracer == 0:
		return "a process outside"
	}
	return fmt.Sprintf("%s (pid %d)", traced.Name, traced.Tracer)
}

// judge predicts an attach, as doctor does.
func (p *Process) judge(t *target.Target) {
	attached := p.payload(t)
	d := preflight.DiagnoseProcess(p.PID, glanceSilence)
	p.ExitCode = d.ExitCode
	if p.State = stateOf(d.Verdict, attached); !attached {
		p.Why, p.Fix = d.Cause, d.Fix
	}
}

// payload looks for this tool's payload, and reports whether a session is active.
func (p *Process) payload(t *target.Target) bool {
	c, err := resident.Open(t)
	if err != nil {
		if !errors.Is(err, resident.ErrNone) {
			p.Payload = "unknown" // Why says why
		}
		return false
	}
	defer c.Close()
	s := c.Snapshot()
	p.Payload = resident.StateText(s.State)
	if holder, held := c.Holder(); held && resident.LooksAlive(holder) {
		p.Recorder = holder.PID
	}
	return s.State.IsRecording() || s.State == ring.StateArming || s.State == ring.StateDraining
}
