package cpusample

import (
	"errors"
	"testing"
	"time"
)

// lateOne is an observation that begins too late.
type lateOne chan string

func (l lateOne) Stop()  { l <- "stopped" }
func (l lateOne) Close() { l <- "closed" }

// TestInTime: who hangs is not waited for, and what begins too late is ended.
func TestInTime(t *testing.T) {
	t.Parallel()
	l, answer := make(lateOne), make(chan struct{})
	_, err := inTime(func() (lateOne, error) {
		<-answer
		return l, nil
	})
	if !errors.Is(err, errHangs) {
		t.Fatal(err)
	}
	close(answer)
	for _, want := range []string{"stopped", "closed"} {
		select {
		case did := <-l:
			if did != want {
				t.Errorf("%s, want %s", did, want)
			}
		case <-time.After(patience):
			t.Errorf("not %s", want)
		}
	}
	if got, err := inTime(func() (lateOne, error) { return l, nil }); got != l || err != nil {
		t.Error(err)
	}
}
