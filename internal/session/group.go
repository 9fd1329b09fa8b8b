package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// GroupObserver also gets the progress of a recording of several processes. Several
// goroutines call its methods.
type GroupObserver interface {
	Observer
	PassedOver(who string)
	AllAttached(facts string) // how many are attached, and how long they were paused
	Joined(facts string)      // a process began to use a GPU meanwhile, and is recorded, too
	Failed(f *failure.Error)  // one process failed; the others continue
}

// RecordAll records all processes that s selects into one trace. If s selects only the
// process that the user named, RecordAll does the same as Record. Otherwise ui and the
// trace get the outcome of each process, and the error is the common one.
func RecordAll(ctx context.Context, o Options, s discover.Selection, skip <-chan struct{}, ui GroupObserver) (Outcome, error) {
	if len(s.PIDs) > 0 {
		o.PID = s.PIDs[0]
	}
	c, err := watchdog.Do(o.PID, s.Resolve)
	switch {
	case err != nil:
		return Outcome{}, failure.Explain("look for", o.PID, err, failure.Untouched)
	case c.Alone(s):
		rights := newPrivileges(o)
		defer rights.close()
		r := newRecording(o, skip, ui, rights)
		r.looked = func() {
			warn := func(late discover.LateWorker) { ui.Warn(late.Warning("")) }
			r.watcher = discover.WatchWorkers(s, c, []discover.Tracked{r.tracked(c.Targets[0])}, warn, nil)
		}
		return r.record(ctx)
	}
	o.PID = c.First
	if o.Schedule.IsOfProcess() {
		return Outcome{}, &failure.Error{
			What: "no schedule by the CPU time of several processes", Code: failure.Usage, Target: failure.Untouched,
			Cause: "each process has a CPU time of its own, and several processes are recorded in common windows",
			Fix:   "--schedule with realtime, monotonic or boottime; or one process: --pid N --no-tree",
		}
	}
	rights := newPrivileges(o)
	defer rights.close()
	g := &group{Preflight: preflight.New(o.Request), o: o, selection: s, choice: c, ui: ui, skip: skip, privileges: rights}
	return g.run(ctx)
}

// group is several recordings into one trace. It arms one after the other, so that no two
// pauses overlap, and drains each from its arming on. The common window begins when the
// last one is armed, and ends before the first detach command. Late workers join meanwhile.
type group struct {
	preflight.Preflight // for the trace; each process has its own
	o                   Options
	selection           discover.Selection
	choice              *discover.Choice
	ui                  GroupObserver
	skip                <-chan struct{}
	privileges          *privileges

	mu          sync.Mutex // members, also read by the members' goroutines
	members     []*member
	db          *tracedb.DB   // nil: a flight recorder makes its own
	flight      *flight.Group // nil: the records go into the trace at once
	watcher     *discover.WorkerWatcher
	joins       *joins
	lateWorkers []discover.LateWorker // also those that have joined
	armingNS    uint64                // when the first attach began
	begin       beginning
	startNS     uint64 // of the common window; 0: it never began
	endNS       uint64
	decided     atomic.Pointer[collector.Ending] // of the common window
	early       string                           // see Outcome
}

func (g *group) run(ctx context.Context) (Outcome, error) {
	defer g.release()
	window, endWindow := context.WithCancel(context.Background())
	defer endWindow()
	g.joins = newJoins(g, window)
	if err := g.look(); err != nil {
		return Outcome{}, err
	}
	if err := g.createTrace(); err != nil {
		return Outcome{}, err
	}
	if g.flight = newFlight(g.o, g.flightHost(), len(g.members)); g.flight != nil {
		defer g.flight.Close()
	}
	if !g.arm(ctx, window) {
		return Outcome{}, errors.Join(g.nobody(), g.discard())
	}
	recordErr := g.record(ctx, endWindow)
	if err := errors.Join(recordErr, g.finish()); err != nil {
		f := failure.Explain("record", g.o.PID, err, "detached")
		f.What = "the trace is not complete: " + failure.FirstLine(err)
		if g.code() == failure.Remains {
			f.Code, f.Target = failure.Remains, "not detached everywhere: the errors above say where"
		}
		return Outcome{Path: g.path(), Code: f.Code}, f
	}
	return Outcome{
		Path: g.path(), Code: g.code(), Flight: g.o.Flight, NoTimes: g.noTimes(), Left: g.left(), Missing: g.missing(), Without: g.without(), Early: g.endedEarly(),
	}, nil
}

// look does everything that is possible before a target is touched. It drops the targets to
// which the tool cannot attach.
func (g *group) look() error {
	if err := g.CheckMachine(); err != nil {
		return failure.Explain("trace", g.o.PID, err, failure.Untouched)
	}
	reserveDescriptors(len(g.choice.Targets))
	g.o.members = len(g.choice.Targets)
	for _, c := range g.choice.Targets {
		g.privileges.needed++
		g.add(g.newMember(c))
	}
	for _, m := range g.members {
		var rank *int
		look := func() (err error) { rank, err = m.look(); return err }
		if m.attempt(tracedb.OutcomeRefused, look) {
			m.introduce(rank)
		}
	}
	ready := g.count((*member).isWell)
	if ready == 0 {
		return g.nobody()
	}
	g.ui.Preflight(g.describe(ready))
	if len(g.choice.Passed) > 0 {
		g.ui.PassedOver(discover.Names(g.choice.Passed))
	}
	if n := len(g.choice.Ranks); n > 0 {
		g.ui.Debug(humanize.Things(n, "GPU process") + " of other ranks not selected")
	}
	if len(g.choice.Hidden) > 0 {
		g.ui.Warn("this user may not look into " + discover.Names(g.choice.Hidden) + ": not recorded, whether they hold a GPU or not")
	}
	g.watcher = discover.WatchWorkers(g.selection, g.choice, g.tracked(), g.joins.note, g.asRoot)
	return nil
}

func (g *group) add(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(g.members, m)
}

// everyone returns the members, on any goroutine.
func (g *group) everyone() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.members)
}

// arm attaches to one target after the other, and starts each drain at once, so that no
// ring fills while the tool attaches to the other targets.
func (g *group) arm(ctx, window context.Context) (armed bool) {
	g.eachMeasured(func(m *rates) { m.awaitBefore(ctx) })
	g.armingNS = boottimeNS()
	for _, m := range g.members {
		if m.isWell() && m.attempt(tracedb.OutcomeFailed, func() error { return m.arm(ctx) }) {
			armed, m.armed = true, true
			go m.collectAndDetach(window)
		}
	}
	return armed
}

// eachMeasured calls do for the rates of each member, at once.
func (g *group) eachMeasured(do func(*rates)) {
	var all sync.WaitGroup
	for _, m := range g.members {
		if !m.abandoned.Load() {
			all.Go(func() { do(m.rates) })
		}
	}
	all.Wait()
}

func (g *group) count(holds func(*member) bool) (n int) {
	for _, m := range g.members {
		if holds(m) {
			n++
		}
	}
	return n
}

// tracked returns the processes that can be recorded.
func (g *group) tracked() []discover.Tracked {
	var list []discover.Tracked
	for _, m := range g.members {
		if m.isWell() {
			list = append(list, discover.Tracked{Process: m.Process, Rank: m.rank})
		}
	}
	return list
}

// finish completes the file.
func (g *group) finish() error {
	if g.db == nil {
		return testpoint.Pass(testpoint.Finished)
	}
	return errors.Join(g.db.OrderGPUs(), g.db.Targets(g.outcomes()), g.db.Close(), testpoint.Pass(testpoint.Finished))
}

// release releases the members to which the tool did not attach.
func (g *group) release() {
	for _, m := range g.members {
		if !m.isOver() && !m.abandoned.Load() {
			m.letGo()
		}
	}
}
