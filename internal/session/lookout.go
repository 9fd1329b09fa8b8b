package session

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	lookPeriod = time.Second
	deepest    = 32 // generations that are looked up
)

// A lookout finds processes that come to hold a GPU while others are recorded:
// below what was meant, and beside the targets, where a worker that is started anew
// is. Its rights may be down meanwhile; the last look is with them.
type lookout struct {
	selection Selection
	roots     []int
	targets   []watched
	known     []candidate // that held a GPU before
	found     []newcomer
	warn      func(string)

	seen    map[int]bool // pids of the look before
	pending map[int]bool // that have come since, and do not hold one yet
	stop    chan struct{}
	done    chan struct{}
}

// A watched is a target as it was when the recording began.
type watched struct {
	candidate
	rank     *int
	replaced bool
}

// A newcomer is not in the trace.
type newcomer struct {
	candidate
	rank     *int
	replaces int // the pid of a target; 0: none that is known
}

// newLookout notes who is there before the recording.
func newLookout(s Selection, c *choice, targets []watched, warn func(string)) *lookout {
	l := &lookout{
		selection: s, roots: c.roots, targets: targets, warn: warn, known: slices.Clone(c.targets),
		seen: map[int]bool{}, pending: map[int]bool{}, stop: make(chan struct{}), done: make(chan struct{}),
	}
	if families, err := target.ReadProcTree(); err == nil {
		l.noteKnown(families)
	}
	return l
}

// begin looks every now and then, until end.
func (l *lookout) begin() { go l.run() }

// noteKnown: who is beside the targets and holds a GPU already is no newcomer. Nobody's
// memory is read: one that hangs there is no reason to fail at another.
func (l *lookout) noteKnown(families target.ProcTree) {
	for pid, k := range families {
		l.seen[pid] = true
		if len(l.beside(k.PID, k.Parent, k.Comm)) > 0 && l.hasOpened(k) {
			l.known = add(l.known, candidateOf(k))
		}
	}
}

func (l *lookout) run() {
	defer close(l.done)
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.look()
		}
	}
}

// look looks at those who have come since the last look, as noteKnown does.
func (l *lookout) look() {
	pids, err := target.All()
	if err != nil {
		return
	}
	now := map[int]bool{}
	for _, pid := range pids {
		now[pid] = true
		if !l.seen[pid] {
			l.pending[pid] = true
		}
	}
	l.seen = now
	for pid := range l.pending {
		k, lives := target.ProcInfoOf(pid)
		if !lives {
			delete(l.pending, pid)
			continue
		}
		if l.isOurs(k, target.ProcInfoOf) && l.hasOpened(k) {
			delete(l.pending, pid)
			l.add(newcomer{candidate: candidateOf(k)})
		}
	}
}

// isOurs: it is below what was meant, or beside a target that has ended.
func (l *lookout) isOurs(k target.ProcInfo, kinOf func(int) (target.ProcInfo, bool)) bool {
	if slices.ContainsFunc(l.beside(k.PID, k.Parent, k.Comm), (*watched).hasEnded) {
		return true
	}
	for range deepest {
		if l.selection.Tree && slices.Contains(l.roots, k.Parent) {
			return true
		}
		var ok bool
		if k, ok = kinOf(k.Parent); !ok {
			return false
		}
	}
	return false
}

// beside are the targets with that parent. That of orphans has children of all
// kinds: there they must have that name, too.
func (l *lookout) beside(pid, parent int, command string) (list []*watched) {
	for i := range l.targets {
		if w := &l.targets[i]; w.pid != pid && w.parent == parent && parent != 0 && (parent != 1 || w.command == command) {
			list = append(list, w)
		}
	}
	return list
}

func (w *watched) hasEnded() bool { return !target.Lives(w.pid, w.startTicks) }

// hasOpened: it has opened the driver itself. Of one that may not be looked into
// that is believed if it is where a target was that has ended, and is called so.
func (l *lookout) hasOpened(k target.ProcInfo) bool {
	t, err := target.OpenLight(k.PID)
	if err != nil {
		return false
	}
	defer t.Close()
	devices, err := t.Devices()
	if errors.Is(err, target.ErrDenied) {
		return len(l.vacant(candidateOf(k))) > 0
	}
	return err == nil && devices.KFD && !isCopyOf(t, k.Parent)
}

// add notes a newcomer, and tells of it.
func (l *lookout) add(n newcomer) {
	same := func(c candidate) bool { return c.isSame(n.candidate) }
	if slices.ContainsFunc(l.known, same) {
		return
	}
	if i := slices.IndexFunc(l.found, func(f newcomer) bool { return same(f.candidate) }); i >= 0 {
		l.found[i].rank = n.rank
		l.place(&l.found[i])
		return
	}
	l.place(&n)
	l.found = append(l.found, n)
	l.warn(n.text())
}

// place finds the target whose place it takes: the one with its rank, or else the
// only one that it can be.
func (l *lookout) place(n *newcomer) {
	vacant := l.vacant(n.candidate)
	i := slices.IndexFunc(vacant, func(w *watched) bool { return w.rank != nil && n.rank != nil && *w.rank == *n.rank })
	if i < 0 && len(vacant) == 1 && (n.rank == nil || vacant[0].rank == nil) {
		i = 0
	}
	if i >= 0 && n.replaces == 0 {
		n.replaces, vacant[i].replaced = vacant[i].pid, true
	}
}

// vacant are the targets that have ended, were where c is, were called as it is, and
// have no successor yet.
func (l *lookout) vacant(c candidate) (list []*watched) {
	for _, w := range l.beside(c.pid, c.parent, c.command) {
		if !w.replaced && w.command == c.command && w.hasEnded() {
			list = append(list, w)
		}
	}
	return list
}

// end looks for the last time, now with our rights if it is told so, and returns all.
func (l *lookout) end(mayLook bool) []newcomer {
	close(l.stop)
	<-l.done
	families, err := target.ReadProcTree()
	if err != nil || !mayLook {
		return l.found
	}
	deadline := time.Now().Add(listLimit) // the trace waits for this
	if l.selection.Name != nil {
		l.addNamed(deadline)
	}
	kinOf := func(pid int) (target.ProcInfo, bool) { k, ok := families[pid]; return k, ok }
	for _, k := range families {
		if l.isOurs(k, kinOf) && l.hasOpened(k) {
			l.addLast(candidateOf(k), deadline)
		}
	}
	slices.SortFunc(l.found, func(a, b newcomer) int { return a.pid - b.pid })
	return l.found
}

// addNamed adds those with the name that was asked for, wherever they are. The trace does
// not wait for long for one of them that hangs.
func (l *lookout) addNamed(deadline time.Time) {
	chosen, _ := within(time.Until(deadline), func() []candidate {
		c, err := l.selection.choose()
		if err != nil {
			return nil
		}
		return c.targets
	})
	for _, one := range chosen {
		l.addLast(one, deadline)
	}
}

// addLast notes a process that holds a GPU, if it was not known before; with its rank, if
// that is to be had before the deadline.
func (l *lookout) addLast(one candidate, deadline time.Time) {
	if slices.ContainsFunc(l.known, one.isSame) {
		return
	}
	rank, _ := within(min(glanceLimit, time.Until(deadline)), func() *int { return rankOfPID(one.pid) })
	l.add(newcomer{candidate: one, rank: rank})
}

func rankOfPID(pid int) *int {
	t, err := target.OpenLight(pid)
	if err != nil {
		return nil
	}
	defer t.Close()
	return rankOf(t)
}

// text is what is said of it at once.
func (n newcomer) text() string {
	who := fmt.Sprintf("worker %d (%s)", n.pid, sanitize.Text(n.command))
	if n.rank != nil {
		who = fmt.Sprintf("rank %d, %s", *n.rank, who)
	}
	return who + " " + n.story()
}

func (n newcomer) story() string {
	if n.replaces != 0 {
		return fmt.Sprintf("takes the place of pid %d: it is not in the trace", n.replaces)
	}
	return "came to hold a GPU during the recording: it is not in the trace"
}

func (n newcomer) target() tracedb.Target {
	return tracedb.Target{
		PID: n.pid, StartTicks: n.startTicks, Command: sanitize.Text(n.command), Rank: n.rank,
		Outcome: tracedb.OutcomeLateWorker, Detail: n.story(),
	}
}
