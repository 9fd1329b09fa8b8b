package privilege

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/hang"
)

// TestToggleHangs: a change that hangs is not awaited for ever; it goes on, and is undone if the opposite is wanted by then.
func TestToggleHangs(t *testing.T) {
	for name, c := range map[string]struct {
		then []bool // is wanted while the first change, to on, hangs
		made []bool // the changes
	}{
		"wanted again":         {[]bool{true}, []bool{true}},
		"the opposite":         {[]bool{false}, []bool{true, false}},
		"the opposite, and on": {[]bool{false, true}, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			var s toggle
			var made []bool
			goOn := make(chan struct{})
			change := func(on bool) error {
				made = append(made, on)
				<-goOn
				return nil
			}
			last := true
			for _, on := range append([]bool{true}, c.then...) {
				if err := s.set(on, change, time.Millisecond); !errors.Is(err, ErrTimeout) {
					t.Errorf("set to %v: %v", on, err)
				}
				last = on
			}
			close(goOn)
			if err := s.set(last, change, hang.Limit); err != nil || s.actual != last || !slices.Equal(made, c.made) {
				t.Errorf("%v: %v, made %v", s.actual, err, made)
			}
		})
	}
}

// TestToggleFails: after a change that has failed, the next call returns the result of its own change.
func TestToggleFails(t *testing.T) {
	var s toggle
	refused := errors.New("refused")
	change := func(on bool) error {
		if on {
			return refused
		}
		return nil
	}
	for range 2 {
		if err := s.set(true, change, hang.Limit); !errors.Is(err, refused) {
			t.Errorf("on: %v", err)
		}
		if err := s.set(false, change, hang.Limit); err != nil {
			t.Errorf("off: %v", err)
		}
	}
}
