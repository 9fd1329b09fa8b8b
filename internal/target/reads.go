package target

import (
	"sync/atomic"
	"time"
)

// readsMax bounds what structures of the target's can make us read, in pages
// and calls: an attach to a server takes a few thousand.
const readsMax = 1 << 22

// spend says whether n bytes more may be read.
func (t *Target) spend(n int) bool {
	return t.spent.Add(1+int64(n/pageBytes)) <= readsMax
}

// A Source is what a target can keep us waiting for.
type Source int32

const (
	Memory     Source = iota // a page that does not come, or the lock on all of it while a thread waits for one
	Filesystem               // that lies in its root, and has a server to be asked
)

// A Wait is one call of ours that a target can hold up.
type Wait struct {
	since  atomic.Int64 // nanoseconds from clock; 0: this place is free
	pid    atomic.Int64
	source atomic.Int32
}

// waits are those that are watched. Where there are more, the others do without: only
// one that hangs stays.
var (
	waits [64]Wait
	clock = time.Now()
)

// BeginRead notes that a call begins which the target can hold up. It, and EndRead
// behind the call, may be called within a stop.
func (t *Target) BeginRead(from Source) *Wait {
	now := 1 + int64(time.Since(clock))
	for i := range waits {
		if w := &waits[i]; w.since.CompareAndSwap(0, now) {
			w.pid.Store(int64(t.PID))
			w.source.Store(int32(from))
			return w
		}
	}
	return nil
}

// EndRead ends what BeginRead began.
func EndRead(w *Wait) {
	if w != nil {
		w.since.Store(0)
	}
}

// A Stall says for what a thread of ours has been waiting.
type Stall struct {
	PID    int // of the target; 0: there is no such thread
	Time   time.Duration
	Source Source
}

// Stalled is the longest wait for the target with that pid; 0: for any.
func Stalled(pid int) (longest Stall) {
	for i := range waits {
		w := &waits[i]
		since := w.since.Load()
		if since == 0 {
			continue
		}
		s := Stall{PID: int(w.pid.Load()), Time: time.Since(clock) - time.Duration(since-1), Source: Source(w.source.Load())}
		if w.since.Load() != since {
			continue // it is over, and the place perhaps another's
		}
		if (pid == 0 || pid == s.PID) && s.Time > longest.Time {
			longest = s
		}
	}
	return longest
}
