package cpusample

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/python"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// memoryLimits says what a Memory does not see.
const memoryLimits = "without BPF: Python frames only, of Python threads only; no waits; a thread that was ready counts as running"

// Causes of missing samples of a Memory, in rtl_cpu_loss.
const (
	causeTorn = "a stack that changed while it was read: samples"
	causeSlow = "a stack whose reading took too long: samples"
	causeLate = "the process's memory was read too slowly: rounds of samples"
)

// Memory observes the Python threads of a process where BPF cannot be used: it reads their stacks from the process's memory
// while they run. It records samples and no waits.
type Memory struct {
	options Options
	target  *target.Target
	memory  *target.Observed
	begunNS uint64
	clocks  [2]memoryClock // by cputrace.CPUClock, WallClock
	stop    context.CancelFunc
	ended   chan struct{} // closed by the reading goroutine, which owns what is above

	spy  python.Spy
	tree tree
	err  error // why it ended early

	rowKeeper
	lost    []cputrace.Loss // until the last round; its mutex is the keeper's
	hung    bool
	endedNS uint64
}

// memoryClock says in which rounds a clock ticks.
type memoryClock struct {
	fromNS, untilNS, periodNS, nextNS uint64
	due                               bool // in this round
}

// ObserveMemory begins to observe a process. It fails with python.ErrNone if there is no CPython in the process, and with an
// error if o has no clock. The process cannot make it hang.
func ObserveMemory(t *target.Target, o Options) (*Memory, error) {
	return inTime(func() (*Memory, error) { return observeMemory(t, o) })
}

func observeMemory(t *target.Target, o Options) (*Memory, error) {
	t = t.Beside()
	fastest := max(o.CPU.HZ, o.Wall.HZ)
	if fastest == 0 {
		return nil, errors.New("waits (--sched) need BPF")
	}
	observed, err := t.Observe()
	if err != nil {
		return nil, err
	}
	m := &Memory{options: o, target: t, memory: observed, tree: newTree(), begunNS: boottimeNS(), ended: make(chan struct{})}
	if err := m.find(time.Second / time.Duration(fastest)); err != nil {
		observed.Close()
		return nil, err
	}
	for i, c := range []Clock{cputrace.CPUClock: o.CPU, cputrace.WallClock: o.Wall} {
		from, until := c.span(m.begunNS)
		m.clocks[i] = memoryClock{fromNS: from, untilNS: until, nextNS: from}
		if c.HZ > 0 {
			m.clocks[i].periodNS = uint64(time.Second) / uint64(c.HZ)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() {
		defer close(m.ended)
		m.err = m.spy.Run(ctx, m.take)
	}()
	return m, nil
}

func (m *Memory) find(interval time.Duration) error {
	maps, err := m.memory.Maps()
	if err != nil {
		return err
	}
	found, err := python.Find(m.target, maps)
	if err != nil {
		return err
	}
	found.ReadMaps(m.memory.Maps)
	m.spy = python.Spy{Interpreter: found, Target: m.target, Interval: interval, Round: m.round}
	return nil
}

// round finds out which clocks tick in the round that begins.
func (m *Memory) round(nowNS uint64) {
	m.count()
	for i := range m.clocks {
		c := &m.clocks[i]
		// A round may come a little early: it stands for the tick that is next to it.
		c.due = c.periodNS > 0 && nowNS < c.untilNS && nowNS+c.periodNS/4 >= c.nextNS && nowNS >= c.fromNS
		if c.due {
			c.nextNS = max(c.nextNS+c.periodNS, nowNS+c.periodNS/2)
		}
	}
}

// take keeps a sample.
func (m *Memory) take(s python.Sample) {
	if !s.Running && !m.clocks[cputrace.WallClock].due || !m.clocks[cputrace.CPUClock].due && !m.clocks[cputrace.WallClock].due {
		return
	}
	b := &cputrace.Batch{}
	places := make([]place, 0, len(s.Frames))
	for _, f := range s.Frames {
		places = append(places, place{kind: cputrace.Python, name: f.Name, file: f.File, line: f.Line})
	}
	row := cputrace.Sample{TID: uint32(s.OwnTID), TimeNS: s.TimeNS, State: cputrace.DidNotRun, Processor: -1, Stack: m.tree.add(places, s.Cut, b)}
	if s.Running {
		row.State = cputrace.RanUser
	}
	for clock, c := range m.clocks {
		if c.due && (s.Running || clock == cputrace.WallClock) {
			row.Clock = clock
			b.Samples = append(b.Samples, row)
		}
	}
	m.keep(b)
}

// Window describes the observation.
func (m *Memory) Window() cputrace.Window {
	return cputrace.Window{BegunNS: m.begunNS, Method: "memory", CPUHz: m.options.CPU.HZ, WallHz: m.options.Wall.HZ}
}

// End ends the observation now. It does not wait for anything.
func (m *Memory) End() {
	if m.endedNS == 0 {
		m.endedNS = boottimeNS()
		m.stop()
	}
}

// Stop waits for the last samples, no longer than patience.
func (m *Memory) Stop() {
	m.End()
	if m.hung {
		return
	}
	select {
	case <-m.ended:
	case <-time.After(patience):
		m.hung = true
	}
}

// Close closes what Finish would.
func (m *Memory) Close() {
	if !m.hung {
		m.memory.Close()
	}
}

// Finish writes what is left and the window's end, and returns what is missing.
func (m *Memory) Finish(w *cputrace.Writer) ([]cputrace.Loss, error) {
	m.Stop()
	rows := m.Take()
	if m.hung {
		losses := hungLosses()
		return losses, errors.Join(w.Write(&rows), w.End(m.endedNS, losses, errHangs.Error()))
	}
	defer m.memory.Close()
	err := w.Write(&rows)
	losses := lossesOf(append(m.missing(), cputrace.Loss{Cause: causeRows, Events: m.dropped}, cputrace.Loss{Cause: causeNoRow, Events: w.Omitted()}))
	detail := memoryLimits
	if m.err != nil {
		detail += fmt.Sprintf("; they could not be read to the end: %v", m.err)
	}
	return losses, errors.Join(err, w.End(m.endedNS, losses, sanitize.Text(detail)))
}

// rowKeeper keeps rows until they are taken. Any goroutine may call its methods.
type rowKeeper struct {
	mu      sync.Mutex
	rows    cputrace.Batch
	dropped uint64 // rows that were not written in time
}

// Take returns the rows since the last call.
func (k *rowKeeper) Take() cputrace.Batch {
	k.mu.Lock()
	defer k.mu.Unlock()
	rows := k.rows
	k.rows = cputrace.Batch{}
	return rows
}

// keep keeps rows. Frames and stacks have a limit of their own.
func (k *rowKeeper) keep(b *cputrace.Batch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows.Frames = append(k.rows.Frames, b.Frames...)
	k.rows.Stacks = append(k.rows.Stacks, b.Stacks...)
	if n := len(b.Samples) + len(b.Waits) + len(b.Shorts); len(k.rows.Samples)+len(k.rows.Waits)+len(k.rows.Shorts)+n > mostHeld {
		k.dropped += uint64(n)
		return
	}
	k.rows.Samples = append(k.rows.Samples, b.Samples...)
	k.rows.Waits = append(k.rows.Waits, b.Waits...)
	k.rows.Shorts = append(k.rows.Shorts, b.Shorts...)
}

// lossesOf returns the losses that there are.
func lossesOf(all []cputrace.Loss) (some []cputrace.Loss) {
	for _, one := range all {
		if one.Events > 0 {
			some = append(some, one)
		}
	}
	return some
}
