package report

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Common is the time in which all processes of a recording were recorded. Busy and idle
// times are of this time; everything else is of the whole trace.
type Common struct {
	StartNS int64 `json:"start_ns"`
	EndNS   int64 `json:"end_ns,omitempty"` // 0: the recorder was killed
	Inside  int64 `json:"inside"`           // dispatches that began and ended in this time
	Outside int64 `json:"outside"`          // all others
}

// Process is one of several processes to record together, or a process that began to use
// a GPU too late.
type Process struct {
	PID        int64           `json:"pid"`
	Command    string          `json:"command"`
	Rank       *int64          `json:"rank,omitempty"`
	Outcome    tracedb.Outcome `json:"outcome"`
	ExitCode   int64           `json:"exit_code"` // the tool's, if it had recorded this process alone
	Detail     string          `json:"detail,omitempty"`
	Dispatches int64           `json:"dispatches"`     // timed, in all of its sessions
	GPUs       []int64         `json:"gpus,omitempty"` // their ids in the trace
	untilNS    int64           // time of its last detach, or of the end of a trigger's window; 0: none
}

// fillProcesses fills in Common and Processes; a recording of one process has neither. A
// process that was recorded several times has its last outcome, and all of its dispatches.
func (s *Summary) fillProcesses(tr *traceread.Trace) {
	if shared, ok := tr.Shared(); ok {
		s.Common = &Common{StartNS: shared.BeginNS, EndNS: shared.EndNS}
	}
	timed, gpus := map[*traceread.Process]int64{}, map[*traceread.Process]map[int64]bool{}
	for _, q := range tr.Queues {
		p := q.Agent.Session.Process
		if q.Account != nil {
			timed[p] = traceread.Sum(timed[p], q.Account.Timed)
		}
		if gpus[p] == nil {
			gpus[p] = map[int64]bool{}
		}
		gpus[p][q.Agent.GPU] = true
	}
	for _, t := range tr.Targets {
		if t.Replaced {
			continue
		}
		one := Process{PID: t.PID, Command: t.Command, Rank: t.Rank, Outcome: t.Outcome, ExitCode: t.ExitCode, Detail: t.Detail}
		for _, p := range t.Processes {
			one.Dispatches = traceread.Sum(one.Dispatches, timed[p])
			one.GPUs = append(one.GPUs, slices.Sorted(maps.Keys(gpus[p]))...)
			for _, recorded := range p.Sessions {
				one.untilNS = max(one.untilNS, recorded.DetachedNS)
				if recorded.EndReason == tracedb.EndTriggered { // a flight recorder's process goes on
					one.untilNS = max(one.untilNS, recorded.WindowEndNS)
				}
			}
		}
		slices.Sort(one.GPUs)
		one.GPUs = slices.Compact(one.GPUs)
		s.Processes = append(s.Processes, one)
	}
}

// cut returns the window common to all processes, if there is one: busy and idle times
// are of it.
func (s *Summary) cut() (traceread.Span, bool) {
	if c := s.Common; c != nil && c.EndNS > c.StartNS {
		return traceread.Span{BeginNS: c.StartNS, EndNS: c.EndNS}, true
	}
	return traceread.Always, false
}

// writeProcesses writes the outcome of each of several processes. For a single process
// writeSessions has everything.
func (s *Summary) writeProcesses(b *bytes.Buffer) {
	if _, cut := s.cut(); cut {
		c := s.Common
		line(b, "Window", "%s %s; %s of %s kernels lie outside of it, and do not count as GPU busy",
			duration(c.EndNS-c.StartNS), s.sharing(), humanize.Count(c.Outside), humanize.Count(c.Inside+c.Outside))
	}
	label := "Processes"
	var passed []string
	for _, p := range s.Processes {
		if p.Outcome == tracedb.OutcomePassedOver {
			passed = append(passed, sanitize.Text(p.Command))
			continue
		}
		line(b, label, "%s", p.text())
		label = ""
	}
	if len(passed) > 0 {
		line(b, "Without a GPU", "%s", strings.Join(grouped(passed), ", "))
	}
}

// sharing returns how many processes were recorded for the whole common window, as text.
func (s *Summary) sharing() string {
	all, shared := 0, 0
	for _, p := range s.Processes {
		if p.Outcome == tracedb.OutcomePassedOver || p.Outcome == tracedb.OutcomeOtherRank || p.Outcome == tracedb.OutcomeLateWorker {
			continue
		}
		if all++; p.untilNS >= s.Common.EndNS && p.Outcome != tracedb.OutcomeJoined {
			shared++
		}
	}
	switch shared {
	case all:
		return "common to all " + humanize.Things(all, "process")
	case 0: // they came and went
		return "in which " + humanize.Things(all, "process") + " ran"
	}
	return "common to " + humanize.Count(shared) + " of " + humanize.Things(all, "process")
}

// grouped counts equal names; the first few are named.
func grouped(names []string) []string {
	const most = 8
	counts := map[string]int{}
	var list []string
	for _, n := range names {
		if counts[n]++; counts[n] == 1 {
			list = append(list, n)
		}
	}
	more := len(list) - most
	list = list[:min(most, len(list))]
	for i, n := range list {
		if counts[n] > 1 {
			list[i] = fmt.Sprintf("%s ×%d", n, counts[n])
		}
	}
	if more > 0 {
		list = append(list, humanize.Things(more, "name")+" more")
	}
	return list
}

func (p Process) text() string {
	const nameWidth = 20
	rank := ""
	if p.Rank != nil {
		rank = fmt.Sprintf("rank %d", *p.Rank)
	}
	text := fmt.Sprintf("%-8d %-8s %-*s %-9s", p.PID, rank, nameWidth, shorten(sanitize.Text(p.Command), nameWidth), sanitize.Text(string(p.Outcome)))
	if p.Dispatches > 0 || p.Outcome == tracedb.OutcomeRecorded {
		text += fmt.Sprintf(" %17s", humanize.Things(p.Dispatches, "dispatch"))
	}
	if len(p.GPUs) > 0 {
		text += "  GPU " + strings.Trim(strings.ReplaceAll(fmt.Sprint(p.GPUs), " ", ","), "[]")
	}
	if p.Detail != "" {
		text += "  " + sanitize.Text(p.Detail)
	}
	return strings.TrimRight(text, " ")
}
