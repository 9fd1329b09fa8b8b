package discover

import (
	"fmt"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// LateWorker is a process that opened a GPU during a recording.
type LateWorker struct {
	Process
	rank     *int
	replaces int // the pid of the ended target that it replaces; 0: not known
}

// addWithRank adds a process, unless it is known; with its rank, if that can be read before
// the deadline.
func (w *WorkerWatcher) addWithRank(one Process, deadline time.Time) {
	if slices.ContainsFunc(w.known, one.isSame) {
		return
	}
	rank, _ := Within(min(LookLimit, time.Until(deadline)), func() *int { return RankOfPID(one.PID) })
	w.add(LateWorker{Process: one, rank: rank})
}

// add adds a late worker, and calls note. If it is known already, add may add its rank.
func (w *WorkerWatcher) add(late LateWorker) {
	same := func(c Process) bool { return c.isSame(late.Process) }
	if slices.ContainsFunc(w.known, same) {
		return
	}
	if i := slices.IndexFunc(w.found, func(f LateWorker) bool { return same(f.Process) }); i >= 0 {
		w.found[i].rank = late.rank
		w.matchPredecessor(&w.found[i])
		return
	}
	w.matchPredecessor(&late)
	w.found = append(w.found, late)
	w.note(late)
}

// matchPredecessor finds the target that a late worker replaces: the target with the same
// rank, or the only possible one.
func (w *WorkerWatcher) matchPredecessor(late *LateWorker) {
	ended := w.predecessors(late.Process)
	i := slices.IndexFunc(ended, func(t *Tracked) bool { return t.Rank != nil && late.rank != nil && *t.Rank == *late.rank })
	if i < 0 && len(ended) == 1 && (late.rank == nil || ended[0].Rank == nil) {
		i = 0
	}
	if i >= 0 && late.replaces == 0 {
		late.replaces, ended[i].replaced = ended[i].PID, true
	}
}

// predecessors returns the targets that c can replace: siblings with its command that have
// ended and are not replaced yet.
func (w *WorkerWatcher) predecessors(c Process) (list []*Tracked) {
	for _, t := range w.siblings(c.PID, c.parent, c.Command) {
		if !t.replaced && t.Command == c.Command && t.hasEnded() {
			list = append(list, t)
		}
	}
	return list
}

// RankOfPID returns the rank of a process, as RankOf; nil: none, or it cannot be read.
func RankOfPID(pid int) *int {
	t, err := target.OpenLight(pid)
	if err != nil {
		return nil
	}
	defer t.Close()
	return RankOf(t)
}

// Name returns the worker's name for messages.
func (l LateWorker) Name() string {
	who := fmt.Sprintf("worker %d (%s)", l.PID, sanitize.Text(l.Command))
	if l.rank != nil {
		who = fmt.Sprintf("rank %d, %s", *l.rank, who)
	}
	return who
}

// How returns how the worker came, as text.
func (l LateWorker) How() string {
	if l.replaces != 0 {
		return fmt.Sprintf("takes the place of pid %d", l.replaces)
	}
	return "came to hold a GPU during the recording"
}

// Warning returns the text that the worker is not recorded; why may be "".
func (l LateWorker) Warning(why string) string { return l.Name() + " " + l.absence(why) }

func (l LateWorker) absence(why string) string {
	text := l.How() + ": it is not in the trace"
	if why != "" {
		text += ": " + why
	}
	return text
}

// Target returns the entry for the trace of a worker that is not recorded; why may be "".
func (l LateWorker) Target(why string) tracedb.Target {
	return tracedb.Target{
		PID: l.PID, StartTicks: l.StartTicks, Command: sanitize.Text(l.Command), Rank: l.rank,
		Outcome: tracedb.OutcomeLateWorker, Detail: sanitize.Text(l.absence(why)),
	}
}

// Obstacle returns why a late worker is not recorded with the selected processes: its rank is not selected, or it belongs to another server
// below a selected pid. "": it is recorded.
func (c *Choice) Obstacle(s Selection, l LateWorker) string {
	switch {
	case s.Ranks.OfRanks() && (l.rank == nil || !s.Ranks.HasRank(int64(*l.rank))):
		return "its rank is not selected"
	case l.replaces != 0 || s.Yes || !s.Tree:
		return ""
	}
	tree, err := target.ReadProcTree()
	if err != nil {
		return "list processes: " + err.Error()
	}
	for _, pid := range s.PIDs {
		if contains(c.Targets, pid) {
			continue // a GPU process, with its workers
		}
		if RefuseSeveral(pid, append(slices.Clone(c.Targets), l.Process), tree) != nil {
			return fmt.Sprintf("it belongs to another server below pid %d", pid)
		}
	}
	return ""
}
