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
	Stop    string        // what it was for: "map", "clone", "unmap"
	Began   time.Time     // the interrupt
	Time    time.Duration // from the interrupt to the detach
	Stopped time.Duration // of that, from the moment we saw it stopped
	Used    bool          // false: the thread was let go, another was tried
	Why     error         // it was not used
}

// threadBorrower makes threads of the target do raw syscalls, one thread at a time.
type threadBorrower struct {
	t        *target.Target
	tr       *ptrace.Tracer
	libc     *libc
	maps     []target.Map // where stacks are
	patience time.Duration
	pauses   []Pause

	unreadFilters bool          // go on where seccomp filters cannot be read
	filters       map[int]error // verdicts on threads' filters

	// How the next visit shall be.
	hold   bool        // keep hold of the thread, whatever it waits in: this tells errors
	bootAt target.Addr // struct rtl_boot in which to note, in the stop, who makes the clone; 0: nowhere
	nonce  uint64      // that must be in it
	text   []byte      // code to be written in the stop, nil: none
	textAt target.Addr

	// How the last one was.
	last    int       // its thread
	held    bool      // the thread was kept hold of
	alone   bool      // it was, and has made its calls, without us or in spite of an error
	head    header    // the beginning of its struct pthread
	stopped time.Time // when it was seen to have stopped
	waited  wait      // in which a thread was stopped

	denials   int            // threads that could not be seized, for no reason that was seen
	desperate bool           // threads whose wait an interrupt makes longer will do
	frame     [chainMax]byte // allocated before the stop, as all of these
	words     [2]uint64
}

// points are the fault points of one visit; the last four are passed where the
// thread is held.
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

// rounds of candidates before a visit gives up, a moment apart. A process with
// tens of thousands of threads gets fewer.
const (
	rounds     = 40
	visitLimit = 10 * time.Second
)

var errNoWaiting = errors.New("it has no thread in a wait")

// visit lets one suitable thread make calls. stop names the pause.
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
		v.desperate = round > 0
		for _, c := range list {
			if why != errNoWaiting && time.Now().After(deadline) {
				break // each may have taken its patience
			}
			// At first only threads in waits without time-out, if any.
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
			case passing(err):
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
	return v.nobody(why)
}

// passing: another thread may do, or the same a moment later.
func passing(err error) bool {
	var no notNow
	return errors.As(err, &no) || errors.Is(err, ptrace.ErrNoStop) || errors.Is(err, ptrace.ErrGone)
}

// untilNext is the time between two rounds.
func untilNext(round int) time.Duration { return time.Duration(1+round) * 200 * time.Microsecond }

// nobody says why none of the threads could be used.
func (v *threadBorrower) nobody(why error) error {
	if err := v.t.Asleep(); err != nil {
		return err
	}
	return fmt.Errorf("pid %d: %w: %w", v.t.PID, ErrNoThread, why)
}
