package flight

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/trigger"
)

const (
	mostAsks  = 64
	mostEnded = 1 << 10 // sessions whose records are still needed
	// stalled is how long a trigger waits for the records of a process beyond lateness: a thread may hang.
	stalled = 5 * time.Second
)

var errBusy = errors.New("too many requests at once")

// Group is the flight recorders of one command. A trigger of any of them writes one trace with the records of all, of the
// same time. Any goroutine may call the methods.
type Group struct {
	config    *Config
	host      GroupHost
	processes int           // that are expected
	share     atomic.Uint64 // bytes of each process

	mu      sync.Mutex
	live    []*Recorder // their sessions go on
	ended   []*Recorder // whose records a trace may need, in the order of their ends
	queue   []*pending  // triggers that have fired and are not written yet
	writing *sync.WaitGroup
	floorNS uint64 // the records of sessions that ended until then were dropped, as there were too many
	restNS  uint64 // conditions fire again from then on
	ignored uint64
	closed  bool
}

// pending is a trigger that has fired.
type pending struct {
	trigger.Firing
	number  uint64
	ignored uint64
	waiting []chan Outcome
	by      *Recorder // whose condition holds; nil: somebody asked
	pieces  []*piece  // that have come
	asked   map[*Recorder]bool
}

// NewGroup returns the flight recorders of that many processes. If there are more at a time, each keeps less.
func NewGroup(c *Config, h GroupHost, processes int) *Group {
	g := &Group{config: c, host: h, processes: max(1, processes)}
	g.divide()
	return g
}

func (g *Group) add(r *Recorder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live = append(g.live, r)
	g.divide()
}

// divide gives each process its share. The caller holds g.mu.
func (g *Group) divide() {
	pids := map[int]bool{}
	for _, r := range g.live {
		pids[r.host.PID] = true
	}
	g.share.Store(g.config.SizeBytes / uint64(max(g.processes, len(pids))))
}

// Ask asks for a trace of the last records, for a reason. The outcome arrives once the trace is complete.
func (g *Group) Ask(reason string) <-chan Outcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	done := make(chan Outcome, 1)
	n := len(g.queue)
	switch {
	case g.closed || len(g.live) == 0:
		done <- Outcome{Err: ErrEnded}
	case n == 0 && g.config.IsSpent():
		done <- Outcome{Err: ErrSpent}
	case n == 0:
		g.begin(nil, trigger.Firing{Expression: reason, AtNS: boottimeNS()}).waiting = []chan Outcome{done}
	case len(g.queue[n-1].waiting) >= mostAsks:
		done <- Outcome{Err: errBusy}
	default: // it gets the trace that is about to be written
		g.queue[n-1].waiting = append(g.queue[n-1].waiting, done)
	}
	return done
}

// fire takes a condition that holds. While a trace is to be written, and for the time of one window after
// it, conditions are only counted: the next trace would be nearly the same.
func (g *Group) fire(r *Recorder, f trigger.Firing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) > 0 || f.AtNS < g.restNS || g.config.IsSpent() {
		g.ignored++
		return
	}
	f.Value = of(r.who(), f.Value)
	g.begin(r, f)
}

// of adds the process to a value.
func of(who, value string) string {
	return strings.TrimSuffix(strings.TrimPrefix(who+": "+value, ": "), ": ")
}

// begin takes a trigger. The caller holds g.mu.
func (g *Group) begin(by *Recorder, f trigger.Firing) *pending {
	p := &pending{Firing: f, by: by, number: g.config.written.Add(1), ignored: g.ignored, asked: map[*Recorder]bool{}}
	g.queue = append(g.queue, p)
	g.restNS, g.ignored = max(g.restNS, f.AtNS+uint64(g.config.KeepLast)), 0
	return p
}

// add adds the records of a session. Its owner calls it.
func (p *pending) add(r *Recorder, beside beside) {
	p.asked[r] = true
	if one := r.piece(p, beside); one != nil {
		p.pieces = append(p.pieces, one)
	}
}

// look gives the trigger that waits the records of a session that goes on, once they are complete.
func (g *Group) look(r *Recorder) {
	p := g.wants(r)
	if p == nil {
		return
	}
	kept := r.beside() // may take a while
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gathering() != p || p.asked[r] {
		return
	}
	p.add(r, kept)
	if g.isComplete(p) {
		g.write(p)
	}
}

// wants returns the trigger that wants the records of a session now; nil: none.
func (g *Group) wants(r *Recorder) *pending {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.gathering()
	switch {
	case p == nil:
		if len(g.queue) == 0 { // else the next trace may need what has ended
			g.prune()
		}
	case !p.asked[r] && r.isDue(p):
		return p
	case g.isComplete(p):
		g.write(p)
	}
	return nil
}

// gathering returns the trigger whose records are gathered; nil: none, or a trace is being written. The caller holds g.mu.
func (g *Group) gathering() *pending {
	if len(g.queue) == 0 || g.writing != nil {
		return nil
	}
	return g.queue[0]
}

// isComplete reports whether all records of a trigger have come, or will not. The caller holds g.mu.
func (g *Group) isComplete(p *pending) bool {
	if boottimeNS() > p.AtNS+uint64(g.config.KeepAfter+lateness+stalled) {
		return true
	}
	return !slices.ContainsFunc(g.live, func(r *Recorder) bool { return !p.asked[r] })
}

// end takes over the records of a session that has ended.
func (g *Group) end(r *Recorder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live = slices.DeleteFunc(g.live, func(one *Recorder) bool { return one == r })
	g.ended = append(g.ended, r)
	g.limit(r.host.PID)
	g.divide()
}

// limit drops the oldest ended sessions: of a process, whose records would be more than its share, and of all, which would be more
// than all may have. The caller holds g.mu.
func (g *Group) limit(pid int) {
	var bytes uint64
	for i := len(g.ended) - 1; i >= 0; i-- {
		one := g.ended[i]
		if one.host.PID != pid {
			continue
		}
		bytes += one.endedBytes()
		if bytes > g.share.Load() && i < len(g.ended)-1 {
			g.drop(i)
		}
	}
	all := uint64(0)
	for _, one := range g.live {
		all += one.SizeBytes()
	}
	for _, one := range g.ended {
		all += one.endedBytes()
	}
	for len(g.ended) > mostEnded || all > g.config.SizeBytes && len(g.ended) > 1 {
		all -= g.ended[0].endedBytes()
		g.drop(0)
	}
}

// drop drops an ended session. The caller holds g.mu.
func (g *Group) drop(i int) {
	g.floorNS = max(g.floorNS, g.ended[i].endedNS)
	g.ended = slices.Delete(g.ended, i, i+1)
}

// prune drops the sessions that ended before what a trace can have. The caller holds g.mu.
func (g *Group) prune() {
	oldest := boottimeNS() - min(boottimeNS(), uint64(g.config.KeepLast+lateness))
	g.ended = slices.DeleteFunc(g.ended, func(r *Recorder) bool { return r.endedNS < oldest })
}

// targetEnded notes the end of a process, and takes it as a trigger if the user wants that.
func (g *Group) targetEnded(r *Recorder, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.gone = why
	for _, c := range g.config.Conditions {
		if c.AtTargetsEnd && !g.config.IsSpent() {
			g.begin(r, trigger.Firing{Expression: c.Text, Value: of(r.who(), why), AtNS: max(r.markNS, r.store.newestNS())})
			return
		}
	}
}

// Settle writes what has fired, if no session goes on any more, and waits for it.
func (g *Group) Settle() {
	for {
		g.mu.Lock()
		writing := g.writing
		if writing == nil {
			if len(g.live) > 0 || len(g.queue) == 0 {
				g.mu.Unlock()
				return
			}
			g.write(g.queue[0])
			writing = g.writing
		}
		g.mu.Unlock()
		writing.Wait()
	}
}

// Close waits for the trace that is being written, and refuses further requests.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed, g.live = true, nil
	g.mu.Unlock()
	g.Settle()
}

// write writes the trace of a trigger, while the sessions go on. The caller holds g.mu.
func (g *Group) write(p *pending) {
	w := g.gather(p)
	g.queue = g.queue[1:]
	running := &sync.WaitGroup{}
	g.writing = running
	running.Add(1)
	g.host.Run(func() {
		defer running.Done()
		o := w.run()
		if o.Err == nil {
			g.config.files.Add(1)
		}
		g.host.Written(o)
		for _, done := range p.waiting {
			done <- o
		}
		g.mu.Lock()
		g.writing = nil
		g.mu.Unlock()
		g.config.done.Add(1)
	})
}

// SizeBytes returns the bytes that are kept.
func (g *Group) SizeBytes() (n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range slices.Concat(g.live, g.ended) {
		n += r.SizeBytes()
	}
	return n
}

// KeepBeside returns a keeper of the rows of an observation. It may use as much memory as the records of its process.
func (g *Group) KeepBeside(w cputrace.Window) *cputrace.Keeper {
	return cputrace.NewKeeper(w, g.config.KeepLast+g.config.KeepAfter+lateness, g.share.Load, boottimeNS)
}
