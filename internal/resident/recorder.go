package resident

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Self returns this process as a holder of locks.
func Self() (ring.Holder, error) {
	me, err := target.Self()
	if err != nil {
		return ring.Holder{}, err
	}
	return ring.Holder{PID: uint32(os.Getpid()), StartTicks: me.StartTicks, PIDNS: me.PIDNamespace}, nil
}

// ErrRecordsItself means that the target holds the lock of its own payload: it uses librtl
// (include/rtl/rtl.h).
var ErrRecordsItself = errors.New("it records itself")

// HeldBy returns the error for a target whose lock a live recorder holds: ring.ErrHeld, and
// ErrRecordsItself if that recorder is the target itself.
func HeldBy(t *target.Target, h ring.Holder) error {
	own := t.NSPID[len(t.NSPID)-1]
	if int(h.PID) == own && h.StartTicks == t.StartTicks {
		return fmt.Errorf("%w: %w", ring.ErrHeld, ErrRecordsItself)
	}
	return fmt.Errorf("%w: pid %d", ring.ErrHeld, h.PID)
}

// LooksAlive reports, by /proc alone, whether a recorder is alive. A recorder in another pid
// namespace counts as alive.
func LooksAlive(h ring.Holder) bool {
	return IsForeign(h) || target.Lives(int(h.PID), h.StartTicks)
}

// IsForeign reports whether a recorder cannot be found in /proc, because it is in another pid
// namespace or has not yet written its namespace.
func IsForeign(h ring.Holder) bool {
	me, err := target.Self()
	return err != nil || h.PIDNS != me.PIDNamespace
}

// heartbeatTimeout is longer than a payload waits for a heartbeat before it detaches,
// unless its recorder has asked for more.
var heartbeatTimeout = 8 * time.Second

// HeartbeatTimeout returns how long a recorder of another pid namespace may be without a
// heartbeat.
func HeartbeatTimeout() time.Duration { return heartbeatTimeout }

// IsAlive returns a function that reports whether the holder of c's lock is alive. The function
// waits up to HeartbeatTimeout for a heartbeat of a recorder in another pid namespace.
func IsAlive(c *ring.Control) func(ring.Holder) bool { return IsAliveWithin(c, heartbeatTimeout) }

// IsAliveWithin is IsAlive with another timeout.
func IsAliveWithin(c *ring.Control, timeout time.Duration) func(ring.Holder) bool {
	return func(h ring.Holder) bool {
		if !IsForeign(h) {
			return LooksAlive(h)
		}
		beat := WatchHeartbeat(c)
		for !beat.seen && beat.Silence() < timeout {
			time.Sleep(beatCheckPeriod)
		}
		return beat.seen
	}
}

// BeatPeriod is the time between a recorder's heartbeats.
const BeatPeriod = 100 * time.Millisecond

const beatCheckPeriod = 50 * time.Millisecond

// Heartbeat watches the recorder's heartbeat in a control block.
type Heartbeat struct {
	control *ring.Control
	beats   uint64
	since   time.Time // time of the last heartbeat, or of the first read
	seen    bool      // there was a heartbeat since the first read
}

// WatchHeartbeat begins to watch.
func WatchHeartbeat(c *ring.Control) *Heartbeat {
	return &Heartbeat{control: c, beats: c.Beats(), since: time.Now()}
}

// Silence reads the heartbeat, and returns how long ago the last one was noticed.
func (h *Heartbeat) Silence() time.Duration {
	now := time.Now()
	if beats := h.control.Beats(); beats != h.beats {
		h.beats, h.since, h.seen = beats, now, true
	}
	return now.Sub(h.since)
}
