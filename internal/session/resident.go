package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
)

// errNotResident: the target has no payload (or an inherited one, which is not its own; or
// one that another tool's thread is just loading).
var errNotResident = errors.New("no payload is resident")

// openResident finds the control block of a payload that the target has loaded.
func openResident(t *target.Target) (*ring.Control, error) {
	found, err := t.FindMemfd(ring.ControlName)
	if err != nil {
		return nil, err
	}
	refusal := errNotResident
	for _, m := range found {
		c, err := openControl(t, m)
		if err == nil {
			return c, nil
		}
		refusal = err
	}
	return nil, refusal
}

func openControl(t *target.Target, m target.MemfdMapping) (*ring.Control, error) {
	f, err := t.OpenMemfd(m)
	if err != nil {
		return nil, fmt.Errorf("open the control block: %w", err)
	}
	defer f.Close()
	c, err := ring.OpenControl(f)
	if errors.Is(err, ring.ErrUnfinished) {
		return nil, fmt.Errorf("%w: %w", errNotResident, err)
	}
	if err != nil {
		return nil, err
	}
	c.Sent = testpoint.Sent
	own := t.NSPID[len(t.NSPID)-1]
	if s := c.Snapshot(); int(s.PID) != own {
		return nil, errors.Join(fmt.Errorf("control block says pid %d, the target is %d: %w", s.PID, own, errNotResident), c.Close())
	}
	return c, nil
}

// openRing maps the ring of the present session. maxBytes bounds what a hostile
// control block can make us map.
func openRing(t *target.Target, s ring.Snapshot, maxBytes uint64) (*ring.Reader, error) {
	found, err := t.FindMemfd(ring.RingName)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if m.Inode != s.RingInode {
			continue
		}
		f, err := t.OpenMemfd(m)
		if err != nil {
			return nil, fmt.Errorf("open the ring: %w", err)
		}
		defer f.Close()
		return ring.Open(f, s.Generation, maxBytes)
	}
	return nil, fmt.Errorf("the target has no mapping of its ring: %w", ring.ErrMalformed)
}

// self names this process as a holder of locks.
func self() (ring.Holder, error) {
	me, err := target.Self()
	if err != nil {
		return ring.Holder{}, err
	}
	return ring.Holder{PID: uint32(os.Getpid()), StartTicks: me.StartTicks, PIDNS: me.PIDNamespace}, nil
}

// holderAlive judges a recorder found in a lock by a look. One in another pid
// namespace counts as alive.
func holderAlive(h ring.Holder) bool {
	return isForeign(h) || target.Lives(int(h.PID), h.StartTicks)
}

// isForeign: it cannot be looked at, as it is in another pid namespace, or has not said yet
// in which.
func isForeign(h ring.Holder) bool {
	me, err := target.Self()
	return err != nil || h.PIDNS != me.PIDNamespace
}

// lives takes its time, and judges one in another pid namespace by its heartbeat.
func lives(c *ring.Control) func(ring.Holder) bool { return livesFor(c, silence) }

// livesFor: one that is silent for so long does not.
func livesFor(c *ring.Control, silence time.Duration) func(ring.Holder) bool {
	return func(h ring.Holder) bool {
		if !isForeign(h) {
			return holderAlive(h)
		}
		p := feel(c)
		for !p.felt && p.silence() < silence {
			time.Sleep(watchPeriod)
		}
		return p.felt
	}
}

// silence is longer than a payload goes without a heartbeat before it detaches, unless
// its recorder has asked for more.
var silence = 8 * time.Second

// A pulse knows since when a recorder has given no sign of life.
type pulse struct {
	control *ring.Control
	beats   uint64
	since   time.Time
	felt    bool // it has given one since we look
}

func feel(c *ring.Control) *pulse { return &pulse{control: c, beats: c.Beats(), since: time.Now()} }

func (p *pulse) silence() time.Duration {
	now := time.Now()
	if beats := p.control.Beats(); beats != p.beats {
		p.beats, p.since, p.felt = beats, now, true
	}
	return now.Sub(p.since)
}

// isPayload: the start of what may be a payload's image.
func isPayload(m target.Map) bool {
	return m.Offset == 0 && (strings.HasPrefix(m.Path, "/memfd:") || strings.Contains(m.Path, "librtl-attach"))
}

// entryOf returns the address of an exported function of the resident payload.
func entryOf(t *target.Target, name string) (target.Addr, error) {
	maps, err := t.Maps()
	if err != nil {
		return 0, err
	}
	for _, m := range maps {
		if !isPayload(m) {
			continue
		}
		image, err := target.OpenImage(t, m.Start)
		if err != nil {
			continue // a memfd of somebody else's
		}
		if addr, ok, err := image.Symbol(name); ok && err == nil {
			return addr, nil
		}
	}
	return 0, fmt.Errorf("the resident payload has no %s: %w", name, errNotResident)
}
