package inject

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Pause is one stop of one thread of the target.
type Pause struct {
	TID     int
	Stop    string        // its purpose: "map", "clone", "unmap" or "seccomp"
	Began   time.Time     // of the interrupt
	Time    time.Duration // from the interrupt to the detach
	Stopped time.Duration // the part of Time after the tool observed the stop
	Used    bool          // false: the thread was released unused
	Why     error         // the reason if it was not used
}

// threadBorrower makes threads of the target do raw syscalls, one thread at a time.
type threadBorrower struct {
	t        *target.Target
	tr       *ptrace.Tracer
	libc     *libc
	maps     []target.Map // to find stacks in
	patience time.Duration
	pauses   []Pause

	unreadFilters bool          // continue if seccomp filters cannot be read
	filters       map[int]error // by thread ID: nil if its filters allow an injection

	// Options of the next visit.
	hold   bool        // hold the thread over its calls, whatever it waits in: errors become visible
	bootAt target.Addr // struct rtl_boot in which the stop stores the ID of the cloning thread; 0: none
	nonce  uint64      // expected in that struct
	text   []byte      // code to write during the stop; nil: none
	textAt target.Addr

	// Results of the last visit.
	last      int       // its thread
	held      bool      // the thread was held over its calls
	callsMade bool      // held, and it makes or has made its calls in spite of an error
	head      header    // the beginning of its struct pthread
	stopped   time.Time // when the tool observed the stop
	lastWait  wait      // the call in which a thread was stopped last

	denials int            // threads that could not be seized, for an unknown reason
	anyWait bool           // also accept threads whose time-out an interrupt restarts
	frame   [chainMax]byte // allocated before the stop, like all fields here
	words   [2]uint64
}

// points are the fault points of one visit. A visit reaches the last four only if it
// holds the thread.
type points struct{ seized, stopped, framed, set, masked, entry, exit, unmasked, back Point }

var (
	pointsMap = points{
		PointSeized, PointStopped, PointFramed, PointSet, PointMasked, PointEntry, PointExit, PointUnmasked, PointBack,
	}
	pointsClone = points{
		PointSeized2, PointStopped2, PointFramed2, PointSet2, PointMasked2, PointEntry2, PointExit2, PointUnmasked2, PointBack2,
	}
	pointsUnmap = points{
		PointSeized3, PointStopped3, PointFramed3, PointSet3, PointMasked3, PointEntry3, PointExit3, PointUnmasked3, PointBack3,
	}
)

// A visit gives up after this many rounds of candidates, or this long: a process with
// tens of thousands of threads gets fewer rounds.
const (
	rounds     = 40
	visitLimit = 10 * time.Second
)

var errNoWaiting = errors.New("no thread waits in a system call")

// visit makes one suitable thread do the calls. stop is the purpose for the Pause.
func (v *threadBorrower) visit(stop string, pts points, calls []call) error {
	why := errNoWaiting
	deadline := time.Now().Add(visitLimit)
	for round := range rounds {
		if round > 1 && time.Now().After(deadline) {
			break
		}
		list, err := candidates(v.t, v.maps, v.last)
		if err != nil {
			return err
		}
		v.anyWait = round > 0
		for _, c := range list {
			if why != errNoWaiting && time.Now().After(deadline) {
				break // each attempt may have taken its full patience
			}
			// In the first round only threads in waits without time-out, if any.
			if c.class >= otherWait && round == 0 && len(list) > 1 && list[0].class < otherWait {
				break
			}
			err := v.filtered(c)
			if err == nil {
				err = v.stop(stop, c, pts, calls)
			}
			switch {
			case err == nil:
				v.last = c.tid
				return nil
			case tryAnother(err):
				why = fmt.Errorf("thread %d: %w", c.tid, err)
			default:
				return err
			}
		}
		if err := v.t.CheckIdentity(); err != nil {
			return err
		}
		time.Sleep(untilNext(round))
		if maps, err := v.t.Maps(); err == nil {
			v.maps = maps
		}
	}
	return v.noThread(why)
}

// tryAnother reports whether another thread, or the same one later, may be usable.
func tryAnother(err error) bool {
	var no notNow
	return errors.As(err, &no) || errors.Is(err, ptrace.ErrNoStop) || errors.Is(err, ptrace.ErrGone)
}

// untilNext returns the time between round and the next one.
func untilNext(round int) time.Duration { return time.Duration(1+round) * 200 * time.Microsecond }

// noThread returns the error for a process without a usable thread.
func (v *threadBorrower) noThread(why error) error {
	if err := v.t.Asleep(); err != nil {
		return err
	}
	return fmt.Errorf("pid %d: %w: %w", v.t.PID, ErrNoThread, why)
}
