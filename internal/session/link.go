package session

import (
	"sync/atomic"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// link is the connection to a payload. The recording's goroutine sets control and held,
// once; the goroutine of beat reads them.
type link struct {
	control    *ring.Control // nil: no payload is known yet
	held       *ring.Lock    // nil: this tool is not its recorder
	unattended atomic.Bool   // no heartbeat any more: the tool takes no more records
}

// beat writes the recorder's heartbeat until finished is closed, or another recorder has
// taken the lock.
func (l *link) beat(finished <-chan struct{}) {
	tick := time.NewTicker(resident.BeatPeriod)
	defer tick.Stop()
	for l.held.Held() && !l.unattended.Load() {
		l.held.Beat()
		select {
		case <-finished:
			return
		case <-tick.C:
		}
	}
}

// isLost reports whether another recorder may have taken the lock.
func (l *link) isLost() bool { return l.held != nil && !l.held.Held() }

// release releases the lock, and unmaps the control block.
func (l *link) release() {
	if l.held != nil {
		l.held.Release()
	}
	if l.control != nil {
		_ = l.control.Close()
	}
}
