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

// waiting is since when a call has been waiting for a target, in nanoseconds from
// clock; 0: none is. One at a time is watched: where one page does not come,
// others wait as well, or do no harm.
var (
	waiting    atomic.Int64
	waitingFor atomic.Int32
	clock      = time.Now()
)

// BeginRead notes that a call begins which the target can hold up, and says
// whether EndRead shall be called behind it. Both may be called within a stop.
func BeginRead(from Source) (mine bool) {
	if mine = waiting.CompareAndSwap(0, 1+int64(time.Since(clock))); mine {
		waitingFor.Store(int32(from))
	}
	return mine
}

// EndRead ends what BeginRead began.
func EndRead(mine bool) {
	if mine {
		waiting.Store(0)
	}
}

// Stalled is how long a thread of ours has been waiting for a target, and for what.
func Stalled() (time.Duration, Source) {
	since := waiting.Load()
	if since == 0 {
		return 0, Memory
	}
	return time.Since(clock) - time.Duration(since-1), Source(waitingFor.Load())
}
