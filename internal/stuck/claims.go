package stuck

import (
	"encoding/binary"
	"errors"
	"io"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// claims is what the payload keeps of the claims of a queue's slots, while rtl-attach records the queue. A thread that claims
// a slot stamps it with its id and the time. All of it is hostile input.
type claims struct {
	stamps   uint64 // address, one for each slot
	base     uint64 // first index that was claimed in this session
	openedAt uint64 // when the session began, by the clock of the stamps: the time-stamp counter, or CLOCK_BOOTTIME
	openedNS uint64 // the same by CLOCK_BOOTTIME
}

// parseClaims parses the payload's state of a queue.
func parseClaims(b []byte) *claims {
	le := binary.LittleEndian
	return &claims{le.Uint64(b[claimsStamps:]), le.Uint64(b[claimsBase:]), le.Uint64(b[claimsAt:]), le.Uint64(b[claimsNS:])}
}

const stampBytes = 16 // struct stamp of the payload: time, then index and thread

// stamp reads the stamp of a packet's slot: the id of the thread in the process's pid namespace, and the time. ok: it is
// of this packet.
func (c *claims) stamp(mem io.ReaderAt, q *rawQueue, index uint64) (tid uint32, at uint64, ok bool) {
	var b, again [stampBytes]byte
	place := c.stamps + (index&uint64(q.slots-1))*stampBytes
	if index < c.base || read(mem, place, b[:]) != nil || read(mem, place, again[:]) != nil || b != again {
		return 0, 0, false
	}
	at, owner := binary.LittleEndian.Uint64(b[0:]), binary.LittleEndian.Uint64(b[8:])
	return uint32(owner >> 32), at, uint32(owner) == uint32(index) && at >= c.openedAt
}

// instant is a time by both clocks that stamps may have.
type instant struct{ tsc, ns uint64 }

func instantNow() instant {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return instant{}
	}
	return instant{readTSC(), uint64(ts.Nano())}
}

// sameClock is how far the begin of a session by CLOCK_BOOTTIME may be from the stamp of it, if that is the stamps' clock, too.
const sameClock = uint64(time.Second)

// age returns how long ago a stamp was made. The time-stamp counter's rate is that since the session began.
func (c *claims) age(stamp uint64, now instant) (time.Duration, bool) {
	if c.openedNS == 0 || c.openedNS >= now.ns || stamp < c.openedAt {
		return 0, false
	}
	if c.openedAt-c.openedNS < sameClock {
		return time.Duration(now.ns - stamp), stamp <= now.ns
	}
	if c.openedAt >= now.tsc || stamp > now.tsc {
		return 0, false
	}
	share := float64(now.tsc-stamp) / float64(now.tsc-c.openedAt)
	return time.Duration(share * float64(now.ns-c.openedNS)), true
}

// claimOf tells who claimed a packet's slot; nil: it is not known.
func (l *look) claimOf(q *rawQueue, index uint64) *Claim {
	if q.claims == nil {
		return nil
	}
	nstid, stamp, ok := q.claims.stamp(l.t, q, index)
	if !ok {
		return nil
	}
	c := l.claimant(nstid)
	if age, ok := q.claims.age(stamp, instantNow()); ok && l.t.SharesClocks() {
		ago := age.Seconds()
		c.Age = &ago
	}
	return &c
}

// Limits of the search for threads by their ids, each of which takes a while in another pid namespace.
const (
	claimantsMax  = 256
	claimantsTime = 5 * time.Second
)

// claimant finds the thread with an id in the process's pid namespace.
func (l *look) claimant(nstid uint32) Claim {
	if c, ok := l.claimants[nstid]; ok || nstid == 0 || nstid > tidMax || len(l.claimants) >= claimantsMax || l.claiming > claimantsTime {
		return c
	}
	began := time.Now()
	c := Claim{}
	tid, err := l.t.ThreadByNSPID(int(nstid))
	switch {
	case err == nil:
		c.TID, c.Name = tid, l.t.Name(tid)
	case errors.Is(err, target.ErrThreadGone):
		c.TID, c.Ended = int(nstid), true
	}
	l.claimants[nstid] = c
	l.claiming += time.Since(began)
	return c
}

const tidMax = 1 << 22 // PID_MAX_LIMIT

// working returns the ids of the queues that are not idle, by their addresses.
func (l *look) working() map[uint64]uint64 {
	found := map[uint64]uint64{}
	for _, q := range l.process.Queues {
		if q.stands() {
			found[q.Address] = q.ID
		}
	}
	return found
}

// submits matches the functions that submit to a queue, or wait for room in one.
var submits = regexp.MustCompile(`^(hip\w*(Launch|Memcpy|Memset|EventRecord|StreamWait|LaunchHostFunc)|hsa_queue_(add|cas|store)_write_index|hsa_signal_store)`)

// noteSubmitters notes the threads that may submit to a queue that stands: they refer to it, or to a signal of its packets.
func (l *look) noteSubmitters() {
	for i := range l.process.Queues {
		q := &l.process.Queues[i]
		completes := func(signal uint64) bool {
			return slices.ContainsFunc(l.completions.by[signal], func(p Pending) bool { return p.Queue == q.ID })
		}
		for _, t := range l.process.Threads {
			if q.stands() && submits.MatchString(t.Within) && (slices.Contains(t.Queues, q.ID) || slices.ContainsFunc(t.Signals, completes)) {
				q.Submitters = append(q.Submitters, t.TID)
			}
		}
	}
}

// authorsUnseen says of which packets it is not known who wrote them.
func (l *look) authorsUnseen() string {
	unknown := func(q Queue) bool { return q.stands() && q.Packet != nil && q.Packet.Claim == nil }
	switch {
	case !l.recorded():
		return ", and who wrote a packet"
	case slices.ContainsFunc(l.process.Queues, unknown):
		return ", and who wrote a packet that was claimed before the recording, or on a queue that is not recorded"
	}
	return ""
}
