package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
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
	c.Sent = sent
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

func isForeign(h ring.Holder) bool {
	me, err := target.Self()
	return err != nil || h.PIDNS != 0 && h.PIDNS != me.PIDNamespace
}

// lives takes its time, and judges one in another pid namespace by its heartbeat.
func lives(c *ring.Control) func(ring.Holder) bool {
	return func(h ring.Holder) bool {
		if !isForeign(h) {
			return holderAlive(h)
		}
		before := c.Beats()
		for deadline := time.Now().Add(silence); time.Now().Before(deadline); time.Sleep(watchPeriod) {
			if c.Beats() != before {
				return true
			}
		}
		return false
	}
}

// silence is longer than a payload goes without a heartbeat before it detaches, unless
// its recorder has asked for more.
var silence = 8 * time.Second

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
