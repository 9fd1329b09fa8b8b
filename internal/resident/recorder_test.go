package resident

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

// lockable is a control block, and this process as who would take its lock.
func lockable(t *testing.T) (*ringtest.Target, *ring.Control, ring.Holder) {
	t.Helper()
	block := ringtest.NewTarget(t)
	control, err := ring.OpenControl(block.File)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { control.Close() })
	me, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	return block, control, me
}

// TestIsAlive: a recorder in another pid namespace is alive as long as it has a heartbeat.
func TestIsAlive(t *testing.T) {
	before := heartbeatTimeout
	heartbeatTimeout = 300 * time.Millisecond
	defer func() { heartbeatTimeout = before }()
	block, control, me := lockable(t)
	if !IsAlive(control)(me) {
		t.Error("this process counts as dead")
	}
	foreign := me
	foreign.PIDNS++
	if IsAlive(control)(foreign) {
		t.Error("one without a heartbeat counts as alive")
	}
	heartbeatTimeout = hang.Limit // for whoever beats on a starved machine
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(time.Millisecond); ; {
			select {
			case <-over:
				return
			case <-tick:
				atomic.AddUint64(&block.Control.Recorder.Beat, 1)
			}
		}
	}()
	alive := IsAlive(control)(foreign)
	close(over)
	<-done
	if !alive {
		t.Error("one with a heartbeat counts as dead")
	}
	if !LooksAlive(foreign) {
		t.Error("by a look alone one of another namespace counts as dead")
	}
}
