package stuck

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ps"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Limits of the search before an attach, which it must not delay.
const (
	quickBytes = 256 << 20
	quickTime  = time.Second
)

// Queues are the hardware queues that a process had when they were searched for.
type Queues struct {
	t   *target.Target
	all []*rawQueue
}

// ErrNoQueues is the error if no queue is found.
var ErrNoQueues = errors.New("no queue was found in the memory that could be searched")

// errOtherQueue is the error if the memory of a queue has another one, or none.
var errOtherQueue = errors.New("a queue was destroyed")

// FindQueues searches a process's memory for its queues, for a second at most.
func FindQueues(t *target.Target) (*Queues, error) {
	maps, err := t.Maps()
	if err != nil {
		return nil, err
	}
	most := bounds{bytes: quickBytes, time: quickTime, enough: ps.ComputeQueues(ps.Driver(), t.PID)}
	all, _ := findQueues(t, maps, t.Present, most)
	if len(all) == 0 {
		return nil, fmt.Errorf("pid %d: %w", t.PID, ErrNoQueues)
	}
	return &Queues{t, all}, nil
}

// Count returns the number of queues.
func (q *Queues) Count() int { return len(q.all) }

// Same reports whether two searches have found the same queues.
func (q *Queues) Same(other *Queues) bool {
	if len(q.all) != len(other.all) {
		return false
	}
	for i, one := range q.all { // both are sorted
		if !one.is(other.all[i]) {
			return false
		}
	}
	return true
}

func (q *rawQueue) is(other *rawQueue) bool {
	return q.at == other.at && q.id == other.id && q.doorbell == other.doorbell && q.ring == other.ring
}

// Taken returns how many packets the GPUs have taken from the queues so far. It fails if one of them is gone.
func (q *Queues) Taken() (uint64, error) { return taken(sampler{q.t}, q.all) }

// sampler reads memory that is read again and again.
type sampler struct{ t *target.Target }

func (s sampler) ReadAt(b []byte, at int64) (int, error) {
	if err := s.t.Sample(target.Addr(at), b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func taken(mem io.ReaderAt, queues []*rawQueue) (sum uint64, err error) {
	for _, was := range queues {
		now, err := readQueue(mem, was.at)
		if err != nil {
			return 0, err
		}
		if !now.is(was) {
			return 0, fmt.Errorf("queue at %#x: %w", was.at, errOtherQueue)
		}
		sum += now.read
	}
	return sum, nil
}
