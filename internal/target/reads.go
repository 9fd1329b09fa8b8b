package target

import (
	"sync/atomic"
	"time"
)

// readsMax limits how much hostile structures in the target can make the tool read, in
// pages plus calls: an attach to a server needs a few thousand.
const readsMax = 1 << 22

// spend counts a read of n bytes and reports whether it is within readsMax.
func (t *Target) spend(n int) bool {
	return t.spent.Add(1+int64(n/pageBytes)) <= readsMax
}

// Source is a resource of a target for which a call of the tool can wait.
type Source int32

// The sources.
const (
	Memory     Source = iota // a page that the target does not provide, or the lock on its memory while a thread waits for one
	Filesystem               // a filesystem in the target's root whose server must answer
)

// Wait is one call of the tool that a target can block.
type Wait struct {
	since  atomic.Int64 // nanoseconds from clock; 0: this entry is free
	pid    atomic.Int64
	source atomic.Int32
	beside atomic.Bool // no session waits for it
}

// waits are the calls under observation. If all entries are in use, further calls are not
// observed; only a call that hangs keeps its entry.
var (
	waits [64]Wait
	clock = time.Now()
)

// BeginRead registers a call that the target can block. EndRead must follow the call.
// Both may be called while a thread is stopped.
func (t *Target) BeginRead(from Source) *Wait {
	now := 1 + int64(time.Since(clock))
	for i := range waits {
		if w := &waits[i]; w.since.CompareAndSwap(0, now) {
			w.pid.Store(int64(t.PID))
			w.source.Store(int32(from))
			w.beside.Store(t.beside)
			return w
		}
	}
	return nil
}

// EndRead removes the registration of BeginRead.
func EndRead(w *Wait) {
	if w != nil {
		w.since.Store(0)
	}
}

// Stall describes a call of the tool that waits for a target.
type Stall struct {
	PID    int // of the target; 0: no call waits
	Time   time.Duration
	Source Source
}

// Stalled returns the longest current wait for the target with that pid, or for any
// target if pid is 0. It leaves out what is read beside a session.
func Stalled(pid int) Stall {
	return longest(func(w *Wait) bool { return !w.beside.Load() && (pid == 0 || int(w.pid.Load()) == pid) })
}

// StalledAtAll returns the longest current wait for any target.
func StalledAtAll() Stall { return longest(func(*Wait) bool { return true }) }

func longest(counts func(*Wait) bool) (longest Stall) {
	for i := range waits {
		w := &waits[i]
		since := w.since.Load()
		if since == 0 {
			continue
		}
		is := counts(w)
		s := Stall{PID: int(w.pid.Load()), Time: time.Since(clock) - time.Duration(since-1), Source: Source(w.source.Load())}
		if w.since.Load() != since {
			continue // the call has ended, and another may use the entry
		}
		if is && s.Time > longest.Time {
			longest = s
		}
	}
	return longest
}
