package report

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A scene is a random trace, and what its sessions were.
type scene struct {
	path     string
	armed    map[int64]span // by session
	untimed  map[int64]map[int64]bool
	backlogs map[int64]backlog // by queue
	baseTime int64
	length   int64
}

// A backlog is of a queue in front of whose window packets were.
type backlog struct {
	gpu    int64
	window span
}

// invent writes a trace of two processes that share GPUs: kernels that overlap,
// come late, take no time, have no submit, with barriers and untimed packets
// between them. Starts are unique, so that there is one next kernel after a gap.
func invent(t *testing.T, random *rand.Rand, perQueue int) scene {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "t.db"), 1)
	must(t, err)
	db, err := tracedb.Create(place)
	must(t, err)
	sc := scene{path: place.Path, armed: map[int64]span{}, untimed: map[int64]map[int64]bool{}, backlogs: map[int64]backlog{}, baseTime: 5_000_000, length: 400_000}
	taken := map[uint64]bool{}
	queueRow := int64(0)
	for n := range 3 {
		s, err := db.Begin(tracedb.SessionInfo{PID: uint32(40 + n%2), StartTicks: 7, Command: fmt.Sprintf("worker%d", n%2), Host: "node"})
		must(t, err)
		from := sc.baseTime + random.Int64N(sc.length)
		armed := span{from, from + sc.length/2 + random.Int64N(sc.length)}
		sc.armed[s.ID()] = armed
		end := tracedb.End{Reason: "detached", ArmedNS: uint64(armed.beginNS), DetachedNS: uint64(armed.endNS)}
		for gpu := range uint32(2) {
			must(t, s.Agent(tracedb.Agent{ID: gpu + 1, GPU: gpu, Name: "gfx942", BDF: gpu}))
		}
		for id := range uint32(3) {
			must(t, s.Launch(tracedb.Launch{ID: id + 1, Agent: 1, Symbol: fmt.Sprintf("_Z4gemmILi%dEEvPf.kd", id+1)}))
		}
		for id := range uint32(4) {
			queueRow++
			w := tracedb.Window{Queue: id + 1, OpenNS: uint64(armed.beginNS), Index: 1, Closed: true, CloseNS: uint64(armed.endNS), EndIndex: 1 << 20}
			if random.IntN(4) == 0 {
				w.QueuedBefore = 3
				sc.backlogs[queueRow] = backlog{gpu: int64(id % 2), window: armed}
			}
			must(t, s.Queue(tracedb.Queue{ID: id + 1, Agent: id%2 + 1, HSAID: uint64(id)}), s.Window(w))
			batch, untimed := inventQueue(t, random, s, id+1, armed, perQueue, taken)
			sc.untimed[queueRow] = untimed
			must(t, s.Dispatches(batch))
			end.Coverage = append(end.Coverage, tracedb.Coverage{
				Queue: id + 1, Windows: 1, Dispatches: uint64(len(batch) + len(untimed)), Timed: uint64(len(batch)), Untimed: uint64(len(untimed)),
			})
		}
		must(t, s.End(end))
	}
	must(t, db.Close())
	return sc
}

func inventQueue(t *testing.T, random *rand.Rand, s *tracedb.Session, id uint32, armed span, n int, taken map[uint64]bool) ([]tracedb.Dispatch, map[int64]bool) {
	t.Helper()
	var batch []tracedb.Dispatch
	untimed := map[int64]bool{}
	at, index := uint64(armed.beginNS), uint64(1)
	for range n {
		at += random.Uint64N(uint64(armed.endNS-armed.beginNS) / uint64(n))
		for taken[at] {
			at++
		}
		taken[at] = true
		switch random.IntN(8) {
		case 0:
			index += 1 + random.Uint64N(3) // barriers
		case 1:
			index++ // and then the untimed one
			untimed[int64(index)] = true
			must(t, s.Untimed(tracedb.Untimed{Queue: id, Reason: uint32(ring.ReasonBacklog), Index: index, Packets: 1}))
			index++
		}
		d := tracedb.Dispatch{Queue: id, Launch: 1 + uint32(random.IntN(3)), TID: 7, Index: index, StartNS: at, EndNS: at + random.Uint64N(6000)}
		index++
		if random.IntN(10) == 0 {
			d.EndNS = at
		}
		if random.IntN(5) > 0 {
			d.SubmitNS = at - random.Uint64N(9000) + 100
		}
		batch = append(batch, d)
	}
	for range n / 10 { // some start before those in front of them
		i := random.IntN(n - 1)
		batch[i].Index, batch[i+1].Index = batch[i+1].Index, batch[i].Index
	}
	for range n / 10 { // some come late
		i := random.IntN(n)
		j := max(0, i-random.IntN(20))
		batch[i], batch[j] = batch[j], batch[i]
	}
	return batch, untimed
}
