package privilege

import (
	"sync"
	"time"
)

// toggle is a state, on or off, that a function changes which may hang. The zero value is off. Any goroutine may call set.
type toggle struct {
	mu      sync.Mutex
	wanted  bool
	actual  bool          // by the last change that has ended, also if it failed
	err     error         // of that change
	settled chan struct{} // closed when what is wanted is actual; nil: it is
}

// set makes the state on or off, and returns the error of the last change, or ErrTimeout. A change that takes longer goes on: the
// state becomes what was wanted last. change is called by one goroutine at a time.
func (t *toggle) set(on bool, change func(on bool) error, limit time.Duration) error {
	settled := t.begin(on, change)
	if settled == nil {
		return nil
	}
	select {
	case <-settled:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.err
	case <-time.After(limit):
		return ErrTimeout
	}
}

func (t *toggle) begin(on bool, change func(on bool) error) (settled chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = on
	if t.settled == nil && t.actual != on {
		t.settled = make(chan struct{})
		go t.settle(change)
	}
	return t.settled
}

func (t *toggle) settle(change func(on bool) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.actual != t.wanted {
		on := t.wanted
		t.mu.Unlock()
		err := change(on)
		t.mu.Lock()
		t.actual, t.err = on, err
	}
	close(t.settled)
	t.settled = nil
}
