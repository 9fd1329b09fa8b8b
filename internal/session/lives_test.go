package session

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
)

// TestLives: a recorder in another pid namespace lives as long as its heart beats.
func TestLives(t *testing.T) {
	before := silence
	silence = 300 * time.Millisecond
	defer func() { silence = before }()
	block := ringtest.NewTarget(t)
	control, err := ring.OpenControl(block.File)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	if !lives(control)(me) {
		t.Error("this process counts as dead")
	}
	foreign := me
	foreign.PIDNS++
	if lives(control)(foreign) {
		t.Error("one without a heartbeat counts as alive")
	}
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
	alive := lives(control)(foreign)
	close(over)
	<-done
	if !alive {
		t.Error("one with a heartbeat counts as dead")
	}
	if !holderAlive(foreign) {
		t.Error("by a look alone one of another namespace counts as dead")
	}
}
