package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/flight"
)

// Commands are requests to a recording while it records: by a signal, or by a control channel. Any
// goroutine may call the methods. A nil *Commands takes no requests.
type Commands struct {
	mu      sync.Mutex
	active  []*drain
	began   time.Time
	stopped chan struct{}
	once    sync.Once
}

// NewCommands returns the requests to one recording, which Options names.
func NewCommands() *Commands {
	return &Commands{stopped: make(chan struct{}), began: time.Now()}
}

// ErrNotRecording is the error of a request while no session is active.
var ErrNotRecording = errors.New("nothing is being recorded at the moment")

// flushPeriod is the time between two looks whether everything is in the file.
const flushPeriod = 5 * time.Millisecond

func (c *Commands) add(d *drain) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = append(c.active, d)
}

func (c *Commands) remove(d *drain) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = slices.DeleteFunc(c.active, func(other *drain) bool { return other == d })
}

func (c *Commands) sessions() []*drain {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.active)
}

// stop returns a channel that is closed when Stop was called.
func (c *Commands) stop() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.stopped
}

// Stop ends the recording as its duration would.
func (c *Commands) Stop() { c.once.Do(func() { close(c.stopped) }) }

// Trigger makes the flight recorder write its trace, and waits for it.
func (c *Commands) Trigger(ctx context.Context, reason string) (flight.Outcome, error) {
	sessions := c.sessions()
	switch {
	case len(sessions) == 0:
		return flight.Outcome{}, ErrNotRecording
	case sessions[0].flight == nil:
		return flight.Outcome{}, errNoFlight
	}
	select {
	case o := <-sessions[0].flight.Ask(reason):
		return o, o.Err
	case <-ctx.Done():
		return flight.Outcome{}, ctx.Err()
	}
}

// Flush returns when all records of kernels that had ended before the call are in the trace file.
func (c *Commands) Flush(ctx context.Context) error {
	sessions := c.sessions()
	if len(sessions) == 0 {
		return ErrNotRecording
	}
	sinceNS := boottimeNS()
	for _, d := range sessions {
		if d.flight != nil {
			return errors.New("a flight recorder has no trace yet: trigger writes one")
		}
		if err := d.flush(ctx, sinceNS); err != nil {
			return err
		}
	}
	return nil
}

// flush waits until everything up to sinceNS is in the file.
func (d *drain) flush(ctx context.Context, sinceNS uint64) error {
	tick := time.NewTicker(flushPeriod)
	defer tick.Stop()
	complete := func() bool {
		select {
		case <-d.done:
			return true
		default:
			return d.session.CompleteNS() >= sinceNS
		}
	}
	for {
		if complete() {
			if done, err := d.session.Commit(); done || err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("the records were not complete in time: the payload's worker, or a reader of the trace, has held them up")
		}
	}
}

// State is the state of a recording, for a control channel. Its JSON form is stable (docs/json.md).
type State struct {
	Recording   bool   `json:"recording"` // a session is active
	Sessions    int    `json:"sessions"`  // active ones
	ElapsedNS   int64  `json:"elapsed_ns"`
	Dispatches  uint64 `json:"dispatches"` // timed, in the active sessions
	Untimed     uint64 `json:"untimed"`
	LostRecords uint64 `json:"lost_records"`
	KeptBytes   uint64 `json:"kept_bytes"` // by a flight recorder
}

// State returns the state of the recording.
func (c *Commands) State() State {
	sessions := c.sessions()
	s := State{Recording: len(sessions) > 0, Sessions: len(sessions), ElapsedNS: int64(time.Since(c.began))}
	for _, d := range sessions {
		p := d.collector.Progress()
		s.Dispatches += p.Dispatches
		s.Untimed += p.Untimed
		s.LostRecords += p.LostRecords
		if d.flight != nil {
			s.KeptBytes += d.flight.SizeBytes()
		}
	}
	return s
}
