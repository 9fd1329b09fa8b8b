package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Commands are requests to a recording while it records: by a signal, or by a control channel. Any
// goroutine may call the methods. A nil *Commands takes no requests.
type Commands struct {
	mu      sync.Mutex
	active  []*drain
	joining bool // processes come later, for which Switch holds, too
	off     bool // windows are switched off
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

// add takes requests for a session. off: its windows must be switched off first.
func (c *Commands) add(d *drain) (off bool) {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = append(c.active, d)
	return c.off && d.windows != nil
}

// join has Switch hold for processes that are not recorded yet, if these have windows.
func (c *Commands) join(windows bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joining = windows
}

// remove returns when no request uses the session any more: its mappings may go then.
func (c *Commands) remove(d *drain) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.active = slices.DeleteFunc(c.active, func(other *drain) bool { return other == d })
	c.mu.Unlock()
	d.users.Wait()
}

// each calls do for all sessions at once.
func (c *Commands) each(do func(*drain) error) error {
	c.mu.Lock()
	sessions := slices.Clone(c.active)
	for _, d := range sessions {
		d.users.Add(1)
	}
	c.mu.Unlock()
	if len(sessions) == 0 {
		return ErrNotRecording
	}
	errs := make(chan error, len(sessions))
	for _, d := range sessions {
		go func() {
			defer d.users.Done()
			errs <- do(d)
		}()
	}
	var all error
	for range sessions {
		all = errors.Join(all, <-errs)
	}
	return all
}

// errOneWindow is the error of a switch of a recording without windows.
var errOneWindow = errors.New("this recording has no windows: one with --control has, without --keep-last")

const (
	switchTimeout = 5 * time.Second
	switchPeriod  = time.Millisecond // between looks whether it is done
)

// Switch lets windows begin, or ends them until it is called again. It returns when that is done. A schedule may have no
// window at the moment: then none begins.
func (c *Commands) Switch(ctx context.Context, enable bool) error {
	c.mu.Lock()
	joining := c.joining
	c.off = joining && !enable
	c.mu.Unlock()
	ended := func(err error) bool { return joining && errors.Is(err, ErrNotRecording) } // other processes may come
	err := c.each(func(d *drain) error {
		if d.windows == nil {
			return errOneWindow
		}
		err := d.switchTo(ctx, enable)
		if ended(err) {
			return nil
		}
		return err
	})
	if ended(err) {
		return nil
	}
	return err
}

func (d *drain) switchTo(ctx context.Context, enable bool) error {
	control := d.windows.link.control
	if d.windows.link.isLost() {
		return ErrNotRecording
	}
	if err := control.Switch(enable, switchTimeout); err != nil {
		return err
	}
	tick := time.NewTicker(switchPeriod)
	defer tick.Stop()
	for {
		s := control.Snapshot().State
		_, _, nextNS := control.Windows()
		switch {
		case enable && (s == ring.StateActive || s == ring.StateOff && (nextNS > boottimeNS() || d.windows.o.Schedule.IsOfProcess())):
			return nil
		case !enable && s == ring.StateOff || !s.IsRecording() && s != ring.StateArming && s != ring.StateDraining:
			return nil
		}
		select {
		case <-tick.C:
		case <-d.done:
			return ErrNotRecording
		case <-ctx.Done():
			return errors.New("the payload could not switch in time")
		}
	}
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
	case o := <-sessions[0].flight.Ask(reason): // of all processes
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

// current returns the session that records go into; nil: no window has begun. With windows, settle sets d.session.
func (d *drain) current() *tracedb.Session {
	if d.windows != nil {
		return d.windows.latest.Load()
	}
	return d.session
}

// flush waits until everything up to sinceNS is in the file.
func (d *drain) flush(ctx context.Context, sinceNS uint64) error {
	tick := time.NewTicker(flushPeriod)
	defer tick.Stop()
	from := d.collector.Passes()
	complete := func(s *tracedb.Session) bool {
		select {
		case <-d.done:
			return true
		default:
		}
		if s == nil || d.windows != nil && !d.windows.open.Load() {
			return d.collector.Passes() >= from+2 // the begin of a window may be in the ring still
		}
		return s.CompleteNS() >= sinceNS
	}
	for {
		if s := d.current(); complete(s) {
			if s == nil {
				return nil // no window has begun
			}
			if done, err := s.Commit(); done || err != nil {
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
