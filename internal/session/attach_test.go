package session

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// quiet is an observer that keeps to itself what it is told.
type quiet struct{ Observer }

func (quiet) Warn(string)  {}
func (quiet) Debug(string) {}

// TestArmTakenBack: a session that began although its command failed is ended.
func TestArmTakenBack(t *testing.T) {
	tg, err := target.Open(victim.Start(t, "plain").PID)
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	block := ringtest.NewTarget(t)
	control, err := ring.OpenControl(block.File)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	r := &recording{Preflight: preflight.Preflight{Target: tg}, ui: quiet{}, link: link{control: control}, watch: exitWatch{target: tg, gone: make(chan struct{})}}
	r.stacks = &stackChecker{target: tg}
	me, err := resident.Self()
	if err != nil {
		t.Fatal(err)
	}
	if r.link.held, _, err = control.TakeLock(me, resident.LooksAlive); err != nil {
		t.Fatal(err)
	}
	var got []ring.Command
	ended := make(chan struct{})
	want := []ring.Command{ring.CommandPing, ring.CommandReattach, ring.CommandPing, ring.CommandDetach}
	go func() {
		defer close(ended)
		for range want {
			block.Serve(func(cmd ring.Command, _ []byte) int32 {
				got = append(got, cmd)
				switch cmd {
				case ring.CommandReattach:
					atomic.StoreUint32(&block.Control.State, uint32(ring.StateActive))
					return -int32(unix.EIO)
				case ring.CommandDetach:
					atomic.StoreUint32(&block.Control.State, uint32(ring.StateDormant))
				}
				return 0
			})
		}
	}()
	if err := r.arm(context.Background(), nil); !errors.Is(err, unix.EIO) {
		t.Errorf("error %v", err)
	}
	if s := control.Snapshot().State; s != ring.StateDormant {
		t.Fatalf("left in state %s", resident.StateText(s))
	}
	<-ended
	if !slices.Equal(got, want) {
		t.Errorf("commands %v, want %v", got, want)
	}
}
