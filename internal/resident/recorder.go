package resident

import (
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

// LooksAlive judges a recorder that holds a lock by /proc alone. One in another pid
// namespace counts as alive.
func LooksAlive(h ring.Holder) bool {
	return IsForeign(h) || target.Lives(int(h.PID), h.StartTicks)
}

// IsForeign reports whether a recorder cannot be seen in /proc: it is in another pid
// namespace, or has not written yet in which.
func IsForeign(h ring.Holder) bool {
	me, err := target.Self()
	return err != nil || h.PIDNS != me.PIDNamespace
}

// heartbeatTimeout is longer than a payload waits for a heartbeat before it detaches,
// unless its recorder has asked for more.
var heartbeatTimeout = 8 * time.Second

// HeartbeatTimeout is how long a recorder of another pid namespace may be silent.
func HeartbeatTimeout() time.Duration { return heartbeatTimeout }

// IsAlive returns a judge of recorders for the lock of c. It waits up to HeartbeatTimeout
// for a heartbeat of one in another pid namespace.
func IsAlive(c *ring.Control) func(ring.Holder) bool { return IsAliveWithin(c, heartbeatTimeout) }

// IsAliveWithin returns a judge that waits up to timeout for a heartbeat.
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

// BeatPeriod is how often a recorder beats.
const BeatPeriod = 100 * time.Millisecond

const beatCheckPeriod = 50 * time.Millisecond

// A Heartbeat is the recorder's sign of life in a control block, watched from here.
type Heartbeat struct {
	control *ring.Control
	beats   uint64
	since   time.Time // of the last beat, or of the first look
	seen    bool      // there was a beat since the first look
}

// WatchHeartbeat begins to watch.
func WatchHeartbeat(c *ring.Control) *Heartbeat {
	return &Heartbeat{control: c, beats: c.Beats(), since: time.Now()}
}

// Silence looks, and returns how long ago the last beat was noticed.
func (h *Heartbeat) Silence() time.Duration {
	now := time.Now()
	if beats := h.control.Beats(); beats != h.beats {
		h.beats, h.since, h.seen = beats, now, true
	}
	return now.Sub(h.since)
}
