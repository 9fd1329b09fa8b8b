package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// background is the context of a report's queries: nothing interrupts them.
var background = context.Background()

// mostLatencies bounds the processes that have a histogram of their own.
const mostLatencies = 1 << 10

// A process is a recorded process and what its dispatches say.
type process struct {
	*traceread.Process
	sessions []*session
	uses     []*gpuUse
	latency  *histogram // nil beyond mostLatencies
}

// A session is one recording of one process.
type session struct {
	*traceread.Session
	process *process
	on      map[*gpu]*gpuSession
}

// A gpuSession is a session on one GPU.
type gpuSession struct {
	session      *session
	use          *gpuUse
	queues       []*queue
	declared     traceread.Span // the session's window; from 0, to LatestNS where an end is not known
	begins, ends bool           // it is known when the window began, and ended
	seen         bool           // a kernel of it has run
}

// A gpuUse is what one process had of one GPU, in all of its sessions.
type gpuUse struct {
	gpu      *gpu
	sessions []*gpuSession
	declared intervals // the windows of its sessions
	busy     union
}

// A gpu is a device, whatever number each process gives it.
type gpu struct {
	id       int64
	name     string
	place    Place
	queues   []*queue
	sessions []*gpuSession
	declared intervals // the windows of its sessions
	busy     union
	last     *gpuSession // of the kernel that ended last
	order    order
	copies   intervals // in which a copy ran
	lost     intervals // in which records were lost
	gaps     idleness

	backlogged []*queue // of which no kernel has run yet
}

// A queue is an HSA queue of one session and what its dispatches say.
type queue struct {
	*traceread.Queue
	gpu     *gpu
	session *gpuSession
	busy    union
	kernels int64 // that started in the time that is asked for
	inside  int64 // that started in the window, which may be a part of that
	came    int64 // in all
	untimed int64 // dispatches without times, where no account was settled
	before  int64 // packets in front of its windows, which nobody saw
	firstNS int64
	lastNS  int64

	packet         int64   // of the last kernel, or before the first; -1: not known
	untimedIndexes []int64 // where runs of packets without times begin

	waiting stream
	place   int // in the heap of its GPU's order
}

// A state is what an analysis finds out while dispatches pass, by what they belong to.
type state struct {
	trace     *traceread.Trace
	processes []*process
	sessions  map[int64]*session
	gpus      map[int64]*gpu
	queues    map[int64]*queue
	coarse    bool // too many packets without times to know each
}

func newState(tr *traceread.Trace) (*state, error) {
	st := &state{trace: tr, sessions: map[int64]*session{}, gpus: map[int64]*gpu{}, queues: map[int64]*queue{}}
	st.addProcesses()
	st.addQueues()
	st.addLosses()
	for _, step := range []struct {
		what string
		read func() error
	}{
		{"packets without times", st.readUntimedIndexes},
		{"dispatches without times", st.readUntimed},
		{"copies", st.readCopies},
	} {
		if err := step.read(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	for _, g := range st.gpus {
		g.order.room = max(orderRoom/len(st.gpus), leastOrderRoom)
	}
	return st, nil
}

func (st *state) addProcesses() {
	for _, one := range st.trace.Processes {
		p := &process{Process: one}
		st.processes = append(st.processes, p)
		for _, s := range one.Sessions {
			added := &session{Session: s, process: p, on: map[*gpu]*gpuSession{}}
			p.sessions = append(p.sessions, added)
			st.sessions[s.ID] = added
		}
	}
}

// addQueues adds the GPUs, too: a GPU without a queue is not in a report.
func (st *state) addQueues() {
	for _, id := range slices.Sorted(maps.Keys(st.trace.Queues)) {
		q := &queue{Queue: st.trace.Queues[id], packet: -1}
		a := q.Agent
		g := st.gpus[a.GPU]
		if g == nil {
			g = &gpu{id: a.GPU, place: placeOf(a)}
			st.gpus[a.GPU] = g
		}
		g.name = max(g.name, a.Name)
		g.queues = append(g.queues, q)
		q.gpu, q.session = g, st.sessions[a.Session.ID].onGPU(g)
		q.session.queues = append(q.session.queues, q)
		st.queues[id] = q
		if len(q.Windows) > 0 {
			q.packet = q.Windows[0].FirstIndex - 1
		}
		for _, w := range q.Windows {
			q.before = traceread.Sum(q.before, w.QueuedBefore)
		}
		if q.hasBacklog() {
			g.backlogged = append(g.backlogged, q)
		}
	}
}

// accounted reports whether the recorder settled what was seen in a session, lost nothing,
// and some queue's account holds all of the work that the payload counted.
func (s *session) accounted() bool {
	return s.Settled() && !s.RecordsLost && s.Counters.QueuesForeign == 0 &&
		s.Counters.QueuesSeen <= s.QueuesRecorded && s.UnseenClaims() == 0
}

// onGPU returns the session's part on a GPU.
func (s *session) onGPU(g *gpu) *gpuSession {
	if known := s.on[g]; known != nil {
		return known
	}
	at := slices.IndexFunc(s.process.uses, func(u *gpuUse) bool { return u.gpu == g })
	if at < 0 {
		at = len(s.process.uses)
		s.process.uses = append(s.process.uses, &gpuUse{gpu: g})
	}
	gs := &gpuSession{session: s, use: s.process.uses[at], declared: traceread.Always}
	from, until := s.FromNS(), s.UntilNS()
	possible := until == 0 || from <= until
	if gs.begins = possible && s.HasBegin(); gs.begins {
		gs.declared.BeginNS = from
	}
	if gs.ends = possible && until > 0; gs.ends {
		gs.declared.EndNS = until
	}
	gs.use.sessions = append(gs.use.sessions, gs)
	g.sessions = append(g.sessions, gs)
	s.on[g] = gs
	return gs
}

// declare notes of which time the figures of GPUs and processes are said: the windows of
// their sessions, as far as they lie in the window that is asked for.
func (st *state) declare(window traceread.Span) {
	for _, g := range st.gpus {
		g.declared = declaredBy(g.sessions, window)
		for _, gs := range g.sessions {
			gs.use.declared = declaredBy(gs.use.sessions, window)
		}
	}
}

func declaredBy(sessions []*gpuSession, window traceread.Span) (all intervals) {
	byBegin := slices.SortedFunc(slices.Values(sessions), func(a, b *gpuSession) int {
		return cmp.Compare(a.declared.BeginNS, b.declared.BeginNS)
	})
	for _, gs := range byBegin {
		if s := gs.declared.Clip(window); s.BeginNS < s.EndNS {
			all.add(s)
		}
	}
	return all
}

// readUntimedIndexes keeps which packets have no times, as far as there is room.
func (st *state) readUntimedIndexes() error {
	blocks, err := tracedb.ReadBlocks(st.trace.DB, "rtl_untimed", "queue_id", "packet_index")
	if err != nil {
		return err
	}
	defer blocks.Close()
	var values []int64
	for n := 0; ; {
		if values, err = blocks.Next(values); err != nil || len(values) == 0 {
			break
		}
		if n += len(values); n > traceread.MostDefinitions*blocks.Width() {
			st.coarse = true
			break
		}
		for at := 0; at < len(values); at += blocks.Width() {
			if q := st.queues[values[at+1]]; q != nil {
				q.untimedIndexes = append(q.untimedIndexes, values[at+2])
			}
		}
	}
	for _, q := range st.queues {
		slices.Sort(q.untimedIndexes)
	}
	return err
}

// readUntimed counts the dispatches without times of queues for which a recorder that was
// killed has settled no account.
func (st *state) readUntimed() error {
	cutOff := func(s *traceread.Session) bool { return !s.Settled() }
	if !slices.ContainsFunc(st.trace.Sessions, cutOff) {
		return nil
	}
	return st.trace.Define(background, func(r traceread.Row) error {
		var of, packets int64
		err := r.Scan(&of, &packets)
		if q := st.queues[of]; q != nil && q.Account == nil {
			q.untimed = max(0, packets)
		}
		return err
	}, `SELECT u.queue_id, CAST(total(u.packets) AS INTEGER) FROM rtl_untimed u JOIN rtl_reason r ON r.id = u.reason_id
		WHERE r.name <> 'after-detach' GROUP BY u.queue_id`)
}
