package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/rate"
	"github.com/rtl-attach/rtl-attach/internal/stuck"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	ratePartsLeast = 20 // samples of a phase
	rateLeast      = 5 * time.Millisecond
	rateMost       = 50 * time.Millisecond
	rateQueuesMost = 256
	rateSearchMost = 2 * time.Second // a search takes some ms, on a machine that is not busy
)

// ratePhase is a part of a recording.
type ratePhase int

const (
	rateNone ratePhase = iota
	rateBefore
	rateDuring
	rateAfter
	ratePhases
)

var rateNames = [ratePhases]string{rateBefore: tracedb.RateBefore, rateDuring: tracedb.RateDuring, rateAfter: tracedb.RateAfter}

// rates measures at which rate the GPUs take the target's packets, by the read indexes of its queues, before it is
// recorded, meanwhile and afterwards (decision 39). It only reads. A nil *rates measures nothing. Any goroutine may call
// the methods.
type rates struct {
	target  *target.Target
	length  time.Duration // of the phases before and after
	began   time.Time
	found   chan struct{} // closed when the queues have been searched for
	queues  *stuck.Queues // valid when found is closed, if there was no error
	beganNS uint64

	mu     sync.Mutex
	err    error     // why it measures nothing (any more)
	failed ratePhase // from which phase on
	now    ratePhase
	last   ratePhase // the latest phase that has begun
	phases [ratePhases]rate.Phase
}

// measureRates begins to measure, if the user wants it. A flight recorder has no end to compare with, and a schedule has
// many windows.
func (r *recording) measureRates() {
	if r.o.MeasureCost <= 0 || r.o.Flight != nil || len(r.o.Schedule) > 0 {
		return
	}
	m := &rates{target: r.Target, length: r.o.MeasureCost, began: time.Now(), beganNS: boottimeNS(), found: make(chan struct{})}
	m.now, m.last = rateBefore, rateBefore
	m.phases[rateDuring].BlockNS = uint64(m.length)
	r.rates = m
	r.background.Go(func() { m.run(r.finished) })
}

// run samples until finished is closed, or the queues cannot be read any more.
func (m *rates) run(finished <-chan struct{}) {
	queues, err := stuck.FindQueues(m.target)
	if err == nil && queues.Count() > rateQueuesMost {
		err = fmt.Errorf("it has more than %d queues", rateQueuesMost)
	}
	m.queues = queues
	m.fail(rateBefore, err)
	close(m.found)
	tick := time.NewTicker(min(max(m.length/ratePartsLeast, rateLeast), rateMost))
	defer tick.Stop()
	for err == nil {
		if phase := m.phase(); phase != rateNone {
			if err = m.sample(phase); !errors.Is(err, target.ErrGone) && !errors.Is(err, target.ErrExec) {
				m.fail(phase, err)
			}
		}
		select {
		case <-finished:
			return
		case <-tick.C:
		}
	}
}

func (m *rates) sample(phase ratePhase) error {
	nowNS := boottimeNS()
	packets, err := m.queues.Taken()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now == phase { // it may have ended meanwhile
		m.phases[phase].Add(rate.Sample{NS: nowNS, Packets: packets})
	}
	return nil
}

func (m *rates) phase() ratePhase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// fail notes why there is no rate of a phase, and of later ones. The first error counts.
func (m *rates) fail(from ratePhase, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil && err != nil {
		m.err, m.failed = err, from
	}
}

func (m *rates) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// begin begins a phase, unless a later one has begun.
func (m *rates) begin(phase ratePhase) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if phase > m.last {
		m.now, m.last = phase, phase
	}
}

// end ends a phase, also one that has not begun.
func (m *rates) end(phase ratePhase) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now <= phase {
		m.now = rateNone
	}
	m.last = max(m.last, phase)
}

// awaitBefore returns when the phase before the attach has been long enough, or ctx is done; and ends it.
func (m *rates) awaitBefore(ctx context.Context) {
	if m == nil {
		return
	}
	defer m.end(rateBefore)
	select {
	case <-m.found:
	case <-ctx.Done():
		return
	case <-time.After(rateSearchMost):
		return
	}
	if m.failure() == nil {
		wait(ctx.Done(), m.length)
	}
}

func wait(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// measureAfter measures the phase after the detach, unless the user is in a hurry, and writes the rates into the trace.
// It needs the privileges.
func (r *recording) measureAfter() error {
	m := r.rates
	if m == nil || r.trace.db == nil {
		return nil
	}
	m.end(rateDuring)
	var why error
	switch {
	case r.watch.isGone():
		why = errors.New("the target has ended")
	case !r.phase.detached:
		why = errors.New("the target is not detached")
	case m.failure() == nil:
		m.begin(rateAfter)
		wait(r.skip, m.length)
		m.end(rateAfter)
		why = m.checkQueues()
	}
	return r.trace.db.Rates(uint32(r.o.PID), r.Target.StartTicks, m.beganNS, m.rows(why))
}

// checkQueues returns an error if the target has other queues than at first.
func (m *rates) checkQueues() error {
	select {
	case <-m.found:
	case <-time.After(rateSearchMost):
		return errors.New("the search for its queues has not ended")
	}
	if err := m.failure(); err != nil {
		return err
	}
	again, err := stuck.FindQueues(m.target)
	if err == nil && !again.Same(m.queues) {
		err = errors.New("queues were made or destroyed meanwhile")
		m.fail(rateDuring, err)
	}
	return err
}

// rows returns the rates of the phases. noAfter is why there is none after the detach.
func (m *rates) rows(noAfter error) (rows []tracedb.Rate) {
	<-m.found
	m.mu.Lock()
	defer m.mu.Unlock()
	for phase := rateBefore; phase < ratePhases; phase++ {
		e, err := m.phases[phase].Estimate()
		if err == nil && phase != rateDuring {
			err = e.UseBlocks(&m.phases[rateDuring])
		}
		switch {
		case m.err != nil && phase >= m.failed:
			err = m.err
		case phase == rateAfter && noAfter != nil:
			err = noAfter
		}
		row := tracedb.Rate{Phase: rateNames[phase], FromNS: e.FromNS, UntilNS: e.UntilNS, Packets: e.Packets, Uncertainty: e.Uncertainty}
		if err != nil {
			row.Reason = failure.FirstLine(err)
		}
		rows = append(rows, row)
	}
	return rows
}
