package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// outcomeOf returns the outcome of a recording with this exit code, which saw that many
// dispatches that the trace does not have.
func outcomeOf(code failure.ExitCode, notInTrace uint64) tracedb.Outcome {
	switch {
	case code == failure.TargetExited:
		return tracedb.OutcomeExited
	case code == failure.NothingSeen && notInTrace == 0:
		return tracedb.OutcomeIdle
	}
	return tracedb.OutcomeRecorded
}

// code returns the group's exit code.
func (g *group) code() failure.ExitCode {
	var codes []failure.ExitCode
	for _, m := range g.members {
		if !m.isAbsent() {
			codes = append(codes, m.exit)
		}
	}
	return failure.CombineExitCodes(codes)
}

// sum adds a number of all members' tallies; see Outcome for their meanings.
func (g *group) sum(of func(tally) uint64) (n uint64) {
	for _, m := range g.members {
		if m.isOver() { // a thread may still work on an abandoned member
			n += of(m.tally)
		}
	}
	return n
}

func (g *group) noTimes() uint64 { return g.sum(func(t tally) uint64 { return t.noTimes }) }
func (g *group) left() uint64    { return g.sum(func(t tally) uint64 { return t.left }) }
func (g *group) missing() uint64 { return g.sum(func(t tally) uint64 { return t.missing }) }
func (g *group) without() uint64 { return g.sum(func(t tally) uint64 { return t.without }) }

// nobody returns the failure of a group of which no process was recorded.
func (g *group) nobody() *failure.Error {
	code := g.code()
	if code == failure.SomeFailed {
		code = failure.Failed
	}
	first := g.members[0].failure
	return &failure.Error{
		What:   fmt.Sprintf("none of %d processes could be recorded", len(g.members)),
		Cause:  "the first: " + first.What + ": " + first.Cause,
		Fix:    "rtl-attach ps says which ones can be",
		Target: "each as it was found, unless an error above says otherwise", Code: code, Err: first,
	}
}

// outcomes returns the outcome of each process.
func (g *group) outcomes() []tracedb.Target {
	var list []tracedb.Target
	for _, m := range g.members {
		if m.isAbsent() {
			continue
		}
		list = append(list, tracedb.Target{
			PID: m.PID, StartTicks: m.StartTicks, Command: sanitize.Text(m.Command), Rank: m.rank,
			Outcome: m.outcome, ExitCode: int(m.exit), Detail: sanitize.Text(m.detail()),
		})
	}
	return slices.Concat(list, g.others(), g.absent())
}

// others returns the selected processes that were not to be recorded.
func (g *group) others() (list []tracedb.Target) {
	for _, c := range g.choice.Passed {
		list = append(list, tracedb.Target{
			PID: c.PID, StartTicks: c.StartTicks, Command: sanitize.Text(c.Command), Outcome: tracedb.OutcomePassedOver, Detail: "holds no GPU",
		})
	}
	for _, c := range g.choice.Ranks {
		list = append(list, tracedb.Target{
			PID: c.PID, StartTicks: c.StartTicks, Command: sanitize.Text(c.Command), Rank: c.Rank,
			Outcome: tracedb.OutcomeOtherRank, Detail: c.Text(),
		})
	}
	return list
}

// detail explains a member's outcome; "": it needs no explanation.
func (m *member) detail() string {
	text := m.explain()
	if m.late == nil {
		return text
	}
	how := m.late.How()
	if m.hasJoined() {
		how += fmt.Sprintf(", recorded from %.1f s into the common window", time.Duration(m.joinedNS.Load()-m.group.startNS).Seconds())
	}
	return strings.TrimSuffix(how+"; "+text, "; ")
}

func (m *member) explain() string {
	switch {
	case m.failure != nil && m.failure.Cause != "":
		return m.failure.What + ": " + m.failure.Cause
	case m.failure != nil:
		return m.failure.What
	case m.outcome == tracedb.OutcomeExited && m.endNS == 0:
		return "exited when the common window was over"
	case m.outcome == tracedb.OutcomeExited && m.endNS <= m.group.startNS:
		return "exited before the common window began"
	case m.outcome == tracedb.OutcomeExited:
		return fmt.Sprintf("exited %.1f s into the common window", time.Duration(m.endNS-m.group.startNS).Seconds())
	case m.endNS != 0 && m.why != "":
		return "ended early: " + m.why
	case m.endNS != 0 && !m.endedBySchedule():
		return "ended early: " + resident.EndText(m.recording.tally.ended)
	case m.outcome == tracedb.OutcomeIdle:
		return "dispatched nothing through a queue that could be seen"
	case m.exit == failure.NothingSeen && m.tally.left > 0:
		return "the filters left out all of its kernels: " + humanize.Things(m.tally.left, "dispatch")
	case m.exit == failure.NothingSeen:
		return humanize.Things(m.tally.noTimes, "dispatch") + " seen, and none could be timed (see Coverage)"
	}
	return ""
}

// describe returns a line about the selected processes.
func (g *group) describe(ready int) string {
	number := humanize.Things(len(g.members), "GPU process")
	if ready < len(g.members) {
		number = humanize.Count(ready) + " of " + number
	}
	where := ""
	if g.selection.Tree && len(g.selection.PIDs) == 1 && g.selection.Name == nil {
		where = fmt.Sprintf(" under pid %d", g.choice.First)
	}
	return fmt.Sprintf("%s%s, may trace, %s", number, where, strings.Join(g.runtimes(), ", "))
}

// runtimes returns the ROCm versions of the members.
func (g *group) runtimes() []string {
	var versions []string
	for _, m := range g.members {
		if m.isWell() {
			versions = append(versions, discover.ROCmVersions(m.Facts.HSA)...)
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

// describePauses returns the number of attached members, and their pauses, as text.
func (g *group) describePauses() string {
	var armed []*member
	for _, m := range g.members {
		if m.armed {
			armed = append(armed, m)
		}
	}
	slices.SortStableFunc(armed, func(a, b *member) int { return cmp.Compare(a.ui.paused, b.ui.paused) })
	text := fmt.Sprintf("%d/%d   one after the other in %s; ", len(armed), len(g.members),
		humanize.Duration(time.Duration(g.startNS-g.armingNS)))
	worst, middle := armed[len(armed)-1], armed[len(armed)/2]
	if worst.ui.paused == 0 {
		return text + "nothing paused"
	}
	who := "one thread of each"
	if slices.ContainsFunc(armed, func(m *member) bool { return m.ui.threads > 1 }) {
		who = "threads of each, singly,"
	}
	return fmt.Sprintf("%s%s paused for %s (worst %s, %s)", text, who,
		humanize.Duration(middle.ui.paused), humanize.Duration(worst.ui.paused), worst.name())
}

// name returns a worker's name for messages.
func (m *member) name() string {
	if m.rank != nil {
		return fmt.Sprintf("rank %d", *m.rank)
	}
	return fmt.Sprintf("pid %d", m.PID)
}

func (g *group) describeDetach() string {
	detached := g.count(func(m *member) bool { return m.isOver() && m.phase.detached })
	entered := g.count(func(m *member) bool { return m.isOver() && m.phase.entered })
	all := g.count(func(m *member) bool { return !m.isAbsent() })
	text := fmt.Sprintf("%d/%d   hooks removed, ", detached, all)
	if entered > 0 {
		return text + fmt.Sprintf("a thread of %d paused for it", entered)
	}
	return text + "nothing paused"
}
