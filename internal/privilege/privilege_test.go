package privilege

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestAwait: a change is awaited while a thread of this process waits for a processor, and given up at the first look
// that finds none.
func TestAwait(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		runnable int // looks that find a thread that is
		done     int // the look after which the change is done; 0: never
		result   error
		want     error
		looked   int
	}{
		"starved, then done":    {runnable: 10, done: 3, looked: 3},
		"starved, then refused": {runnable: 10, done: 2, result: refused, want: refused, looked: 2},
		"starved for long":      {runnable: 10, want: ErrTimeout, looked: 5},
		"a thread hangs":        {want: ErrTimeout, looked: 1},
		"one hangs later":       {runnable: 2, done: 4, want: ErrTimeout, looked: 3},
	} {
		t.Run(name, func(t *testing.T) {
			done, looked := make(chan error, 1), 0
			err := await(done, time.Millisecond, 5, func() bool {
				if looked++; looked == c.done {
					done <- c.result
				}
				return looked <= c.runnable
			})
			if !errors.Is(err, c.want) || looked != c.looked {
				t.Errorf("%v after %d looks, want %v after %d", err, looked, c.want, c.looked)
			}
		})
	}
}

// TestAnotherIsRunnable: a thread that computes is found.
func TestAnotherIsRunnable(t *testing.T) {
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
		}
	}()
	for !anotherIsRunnable() {
		runtime.Gosched()
	}
	stop.Store(true)
	<-ended
}
