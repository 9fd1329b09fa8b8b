package discover

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

const (
	scanPeriod    = time.Second
	mostAncestors = 32 // limit of the lookups for one process
)

// WorkerWatcher finds processes that open a GPU during a recording: descendants of the
// selected processes and, for restarted workers, siblings of ended targets. It scans every
// second, possibly without privileges, and a last time with them.
type WorkerWatcher struct {
	selection Selection
	roots     []int
	known     []Process // they held a GPU when the recording began
	note      func(LateWorker)
	asRoot    func(look func()) // nil: scans have no privileges
	found     []LateWorker

	mu      sync.Mutex
	targets []*Tracked

	seen    map[int]bool // pids of the last scan
	pending map[int]bool // new since the recording began, without a GPU so far
	stop    chan struct{}
	done    chan struct{}
}

// Tracked is a target as it was when the recording began.
type Tracked struct {
	Process
	Rank     *int
	replaced bool // by a late worker
}

// WatchWorkers returns a watcher that knows all existing processes. It calls note for each
// late worker, on any goroutine. asRoot runs a function with the tool's privileges, with which the
// watcher looks at new processes that it may not read otherwise; nil: it does not look at them before the end.
func WatchWorkers(s Selection, c *Choice, targets []Tracked, note func(LateWorker), asRoot func(look func())) *WorkerWatcher {
	w := &WorkerWatcher{
		selection: s, roots: c.roots, note: note, asRoot: asRoot, known: c.known(),
		seen: map[int]bool{}, pending: map[int]bool{}, stop: make(chan struct{}), done: make(chan struct{}),
	}
	for _, t := range targets {
		w.Track(t)
	}
	if tree, err := target.ReadProcTree(); err == nil {
		w.noteExisting(tree)
	}
	return w
}

// noteExisting notes the siblings of targets that already hold a GPU. It reads no process's
// memory, because such a read can hang.
func (w *WorkerWatcher) noteExisting(tree target.ProcTree) {
	for pid, info := range tree {
		w.seen[pid] = true
		if len(w.siblings(info.PID, info.Parent, info.Comm)) > 0 && w.holdsDriver(info) {
			w.known = add(w.known, ProcessOf(info))
		}
	}
}

// Begin starts to scan in the background, until end.
func (w *WorkerWatcher) Begin() { go w.run() }

func (w *WorkerWatcher) run() {
	defer close(w.done)
	tick := time.NewTicker(scanPeriod)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			w.scan()
		}
	}
}

// Track adds a target: a late worker that is recorded. Any goroutine may call it.
func (w *WorkerWatcher) Track(t Tracked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets = append(w.targets, &t)
}

// scan examines the processes that have started since the last scan.
func (w *WorkerWatcher) scan() {
	pids, err := target.All()
	if err != nil {
		return
	}
	now := map[int]bool{}
	for _, pid := range pids {
		now[pid] = true
		if !w.seen[pid] {
			w.pending[pid] = true
		}
	}
	w.seen = now
	for pid := range w.pending {
		info, exists := target.ProcInfoOf(pid)
		if !exists {
			delete(w.pending, pid)
			continue
		}
		if w.isOurs(info, target.ProcInfoOf) && w.lookAt(info) {
			delete(w.pending, pid)
		}
	}
}

// lookAt adds a process if it holds the driver, and reports whether it does.
func (w *WorkerWatcher) lookAt(info target.ProcInfo) (holds bool) {
	look := func() {
		if holds = w.holdsDriver(info); holds {
			w.addWithRank(ProcessOf(info), time.Now().Add(LookLimit))
		}
	}
	if w.asRoot == nil {
		look()
	} else {
		w.asRoot(look)
	}
	return holds
}

// isOurs reports whether a process descends from a selected process, or is a sibling of an
// ended target.
func (w *WorkerWatcher) isOurs(info target.ProcInfo, infoOf func(int) (target.ProcInfo, bool)) bool {
	if slices.ContainsFunc(w.siblings(info.PID, info.Parent, info.Comm), (*Tracked).hasEnded) {
		return true
	}
	for range mostAncestors {
		if w.selection.Tree && slices.Contains(w.roots, info.Parent) {
			return true
		}
		var ok bool
		if info, ok = infoOf(info.Parent); !ok {
			return false
		}
	}
	return false
}

// siblings returns the targets with that parent. Init adopts all orphans: its children must
// also have the same command.
func (w *WorkerWatcher) siblings(pid, parent int, command string) (list []*Tracked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.targets {
		if t.PID != pid && t.parent == parent && parent != 0 && (parent != 1 || t.Command == command) {
			list = append(list, t)
		}
	}
	return list
}

func (t *Tracked) hasEnded() bool { return !target.Lives(t.PID, t.StartTicks) }

// holdsDriver reports whether a process has opened the GPU driver itself. If this user may
// not read that, holdsDriver reports whether the process can be the successor of a target.
func (w *WorkerWatcher) holdsDriver(info target.ProcInfo) bool {
	t, err := target.OpenLight(info.PID)
	if err != nil {
		return false
	}
	defer t.Close()
	devices, err := t.Devices()
	if errors.Is(err, target.ErrDenied) {
		return len(w.predecessors(ProcessOf(info))) > 0
	}
	return err == nil && devices.KFD && !isCopyOf(t, info.Parent)
}

// End stops the scans and returns all late workers. With mayLook it scans a last time, with
// this tool's privileges, and for ranks.
func (w *WorkerWatcher) End(mayLook bool) []LateWorker {
	close(w.stop)
	<-w.done
	tree, err := target.ReadProcTree()
	if err != nil || !mayLook {
		return w.found
	}
	deadline := time.Now().Add(ListLimit) // the trace waits for this
	if w.selection.Name != nil {
		w.addNamed(deadline)
	}
	infoOf := func(pid int) (target.ProcInfo, bool) { info, ok := tree[pid]; return info, ok }
	for _, info := range tree {
		if w.isOurs(info, infoOf) && w.holdsDriver(info) {
			w.addWithRank(ProcessOf(info), deadline)
		}
	}
	slices.SortFunc(w.found, func(a, b LateWorker) int { return a.PID - b.PID })
	return w.found
}

// addNamed adds the processes that match the selected name, wherever they are, until
// deadline: a process that hangs must not delay the trace.
func (w *WorkerWatcher) addNamed(deadline time.Time) {
	chosen, _ := Within(time.Until(deadline), func() []Process {
		c, err := w.selection.choose()
		if err != nil {
			return nil
		}
		return c.Targets
	})
	for _, one := range chosen {
		w.addWithRank(one, deadline)
	}
}
