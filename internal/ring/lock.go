package ring

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// ErrHeld means that another live recorder holds the target.
var ErrHeld = errors.New("held by another recorder")

// Holder identifies a recorder, also across pid reuse and pid namespaces.
type Holder struct {
	PID        uint32
	StartTicks uint64 // field 22 of /proc/PID/stat; 0: not filled in yet, only the pid is known
	PIDNS      uint64 // inode of its pid namespace; 0: not filled in yet
}

// Lock is the right to record and command a target.
type Lock struct {
	shared *Recorder
	owner  uint64
}

// Holder returns the current holder of the lock.
func (c *Control) Holder() (h Holder, held bool) {
	return holderOf(&c.shared.Recorder, atomic.LoadUint64(&c.shared.Recorder.Owner))
}

func holderOf(r *Recorder, owner uint64) (h Holder, held bool) {
	return Holder{
		PID:        uint32(owner >> 32),
		StartTicks: atomic.LoadUint64(&r.StartTicks),
		PIDNS:      atomic.LoadUint64(&r.PIDNS),
	}, owner != 0
}

// TakeLock takes the lock for self. It calls alive for a current holder, replaces a dead one,
// and returns a live one with ErrHeld.
func (c *Control) TakeLock(self Holder, alive func(Holder) bool) (*Lock, Holder, error) {
	r := &c.shared.Recorder
	nonce := uint64(rand.Uint32N(1<<32-1) + 1) // two sessions of one tool differ; never 0
	mine := uint64(self.PID)<<32 | nonce

	old := atomic.LoadUint64(&r.Owner)
	if holder, held := holderOf(r, old); held {
		if alive(holder) {
			return nil, holder, fmt.Errorf("%w: pid %d", ErrHeld, holder.PID)
		}
		// Clear the dead holder's identity before the word changes: otherwise a third tool would
		// take it for the new holder's. By CAS, since a rival may have been faster and written its
		// own identity, perhaps with the same pid namespace.
		if atomic.LoadUint64(&r.Owner) != old {
			return nil, holder, fmt.Errorf("%w: another was faster", ErrHeld)
		}
		atomic.CompareAndSwapUint64(&r.StartTicks, holder.StartTicks, 0)
		atomic.CompareAndSwapUint64(&r.PIDNS, holder.PIDNS, 0)
	}
	if !atomic.CompareAndSwapUint64(&r.Owner, old, mine) {
		holder, _ := c.Holder()
		return nil, holder, fmt.Errorf("%w: pid %d was faster", ErrHeld, holder.PID)
	}
	atomic.StoreUint32(&r.StopRequest, 0)
	atomic.StoreUint64(&r.StartTicks, self.StartTicks)
	atomic.StoreUint64(&r.PIDNS, self.PIDNS)
	return &Lock{shared: r, owner: mine}, self, nil
}

// Beat writes a heartbeat: without heartbeats the payload detaches by itself.
func (l *Lock) Beat() { atomic.AddUint64(&l.shared.Beat, 1) }

// Beats returns the number of heartbeats of all recorders so far.
func (c *Control) Beats() uint64 { return atomic.LoadUint64(&c.shared.Recorder.Beat) }

// StopRequested reports whether another tool has asked this recorder to finish.
func (l *Lock) StopRequested() bool { return atomic.LoadUint32(&l.shared.StopRequest) != 0 }

// Held reports whether this recorder still has the lock: another tool may have taken it, if this
// recorder's heartbeat timed out.
func (l *Lock) Held() bool { return atomic.LoadUint64(&l.shared.Owner) == l.owner }

// Release releases the lock, unless another recorder has taken it.
func (l *Lock) Release() {
	if !l.Held() {
		return
	}
	atomic.StoreUint64(&l.shared.StartTicks, 0)
	atomic.StoreUint64(&l.shared.PIDNS, 0)
	atomic.CompareAndSwapUint64(&l.shared.Owner, l.owner, 0)
}

// RequestStop asks the recorder that holds the target to finish its trace and detach.
func (c *Control) RequestStop() { atomic.StoreUint32(&c.shared.Recorder.StopRequest, 1) }
