package pausemeter

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

// Stop is one stop of one thread under ptrace by the scheduler's events: from the time when the
// thread was switched out in a traced stop until it was woken.
type Stop struct {
	PID, TID uint32
	Duration time.Duration

	// The thread that released it.
	By       uint32 // its process
	RealTime bool   // it ran at real-time priority
	Pinned   bool   // it was pinned to a single processor
	Beside   bool   // it ran on the processor of the stopped thread
}

// leastNormal is the kernel's MAX_RT_PRIO: real-time priorities are lower numbers.
const leastNormal = 100

// decode reads an event; programs.go has its offsets.
func decode(b []byte) (s Stop, err error) {
	if len(b) < eventBytes {
		return s, fmt.Errorf("an event of %d bytes", len(b))
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at-atEvent:]) }
	long := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at-atEvent:]) }
	return Stop{
		PID: word(atWho + 4), TID: word(atWho),
		Duration: time.Duration(long(atEnded) - long(atBegan)),
		By:       word(atBy + 4), RealTime: word(atPriority) < leastNormal,
		Pinned: word(atAllowed) == 1, Beside: word(atLeft) == word(atWoken),
	}, nil
}

// Sum sums up several stops.
type Sum struct {
	Stops        int
	Total, Worst time.Duration
}

// Add adds one stop.
func (s *Sum) Add(d time.Duration) {
	s.Stops++
	s.Total += d
	s.Worst = max(s.Worst, d)
}

func (s Sum) String() string {
	switch s.Stops {
	case 0:
		return "nothing"
	case 1:
		return fmt.Sprintf("one stop of %s", humanize.Duration(s.Worst))
	}
	return fmt.Sprintf("%s, worst %s, together %s", humanize.Things(s.Stops, "stop"), humanize.Duration(s.Worst), humanize.Duration(s.Total))
}
