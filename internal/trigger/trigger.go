// Package trigger has the conditions under which a flight recorder writes its records: the parser of
// --trigger, and the detectors, which see each kernel while it is recorded.
//
// A kernel is seen when it has ended, so kernels arrive in the order of their ends. Detectors that need
// the order of starts wait for settleNS, and take a kernel that runs longer for one that has not run.
package trigger

import (
	"time"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// settleNS is how long a detector waits for kernels that started earlier and end later.
const settleNS = uint64(500 * time.Millisecond)

// Condition is a condition as the user wrote it.
type Condition struct {
	Text         string
	AtTargetsEnd bool // it is the end of the target, which no detector sees

	detect func(*Set) detector
}

// Firing is one time that a condition held.
type Firing struct {
	Expression string
	Value      string
	AtNS       uint64 // CLOCK_BOOTTIME
}

// detector looks for one condition. One goroutine calls it.
type detector interface {
	// kernel is called for each kernel, when it has ended.
	kernel(d *tracedb.Dispatch, fire func(value string, atNS uint64))
	// lost is called for a time in which kernels may have run whose records are lost.
	lost(fromNS, untilNS uint64)
	// settle is called a few times a second. Every kernel that ended before untilNS was seen; idle: at
	// untilNS no kernel was running, or waiting to run.
	settle(untilNS uint64, idle bool, fire func(value string, atNS uint64))
}

// Set looks for several conditions in the kernels of one session. One goroutine calls its methods.
type Set struct {
	detectors  []detector
	conditions []Condition
	fired      []Firing
	fires      []func(string, uint64)

	agents map[uint32]uint32 // by queue
	names  map[uint32]string // of kernels, by launch
}

// Limits of the memory that a target can make a Set use.
const (
	mostQueues   = 1 << 16
	mostLaunches = 1 << 17
	mostKernels  = 1 << 12 // with own statistics
	mostAgents   = 1 << 10
	mostFirings  = 64 // between two calls of Take
)

// NewSet returns a set for a new session.
func NewSet(conditions []Condition) *Set {
	s := &Set{agents: map[uint32]uint32{}, names: map[uint32]string{}}
	for _, c := range conditions {
		if c.detect == nil {
			continue
		}
		s.conditions = append(s.conditions, c)
		s.detectors = append(s.detectors, c.detect(s))
		s.fires = append(s.fires, func(value string, atNS uint64) {
			if len(s.fired) < mostFirings {
				s.fired = append(s.fired, Firing{c.Text, value, atNS})
			}
		})
	}
	return s
}

// IsEmpty reports whether there is nothing to look for.
func (s *Set) IsEmpty() bool { return len(s.detectors) == 0 }

// Queue defines a queue.
func (s *Set) Queue(q tracedb.Queue) {
	if len(s.agents) < mostQueues {
		s.agents[q.ID] = q.Agent
	}
}

// Launch defines a launch. A payload that forgets its launches uses no older ones any more.
func (s *Set) Launch(l tracedb.Launch) {
	if s.IsEmpty() {
		return
	}
	if len(s.names) >= mostLaunches {
		clear(s.names)
	}
	s.names[l.ID] = tracedb.KernelName(l.Symbol)
	for _, d := range s.detectors {
		if k, is := d.(*slowKernel); is {
			k.defined(l.ID, s.names[l.ID])
		}
	}
}

// Kernels looks at kernels that have ended.
func (s *Set) Kernels(batch []tracedb.Dispatch) {
	for i, d := range s.detectors {
		for at := range batch {
			d.kernel(&batch[at], s.fires[i])
		}
	}
}

// Lost notes a time in which kernels may have run; 0: the begin or end is not known.
func (s *Set) Lost(fromNS, untilNS uint64) {
	for _, d := range s.detectors {
		d.lost(fromNS, untilNS)
	}
}

// Settle says that every kernel that ended before untilNS was seen. idle: none was running or waiting then.
func (s *Set) Settle(untilNS uint64, idle bool) {
	for i, d := range s.detectors {
		d.settle(untilNS, idle, s.fires[i])
	}
}

// Take returns the firings since its last call.
func (s *Set) Take() []Firing {
	fired := s.fired
	s.fired = nil
	return fired
}

func (s *Set) agentOf(queue uint32) uint32 { return s.agents[queue] }
