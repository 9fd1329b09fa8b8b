package ring

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// ErrHeld: another recorder, alive, holds the target.
var ErrHeld = errors.New("held by another recorder")

// A Holder names a recorder across pid reuse and pid namespaces.
type Holder struct {
	PID        uint32
	StartTicks uint64 // field 22 of /proc/PID/stat; 0: not filled in yet, only the pid is known
	PIDNS      uint64 // inode of its pid namespace; 0: not filled in yet
}

// A Lock is the right to record and command a target.
type Lock struct {
	shared *Recorder
	owner  uint64
}

// Holder returns who holds the lock now.
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

// TakeLock takes the lock for self. alive is asked about a holder found there;
// one that is dead is replaced, a live one is returned with ErrHeld.
func (c *Control) TakeLock(self Holder, alive func(Holder) bool) (*Lock, Holder, error) {
	r := &c.shared.Recorder
	nonce := uint64(rand.Uint32N(1<<32-1) + 1) // two sessions of one tool differ; never 0
	mine := uint64(self.PID)<<32 | nonce

	old := atomic.LoadUint64(&r.Owner)
	if holder, held := holderOf(r, old); held {
		if alive(holder) {
			return nil, holder, fmt.Errorf("%w: pid %d", ErrHeld, holder.PID)
		}
		// Blank the dead holder's identity before the word changes hands: a third
		// tool would judge the new holder by it. By CAS, since a rival may have
		// been faster and written its own; its pid namespace may be the same.
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

// Beat is the heartbeat: without it the payload detaches by itself.
func (l *Lock) Beat() { atomic.AddUint64(&l.shared.Beat, 1) }

// Beats is the number of heartbeats of all recorders so far.
func (c *Control) Beats() uint64 { return atomic.LoadUint64(&c.shared.Recorder.Beat) }

// StopRequested says that another tool asked this recorder to finish.
func (l *Lock) StopRequested() bool { return atomic.LoadUint32(&l.shared.StopRequest) != 0 }

// Held says whether the lock is still ours; a tool that took us for dead may have it.
func (l *Lock) Held() bool { return atomic.LoadUint64(&l.shared.Owner) == l.owner }

// Release gives the lock back, unless somebody else has it by now.
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
