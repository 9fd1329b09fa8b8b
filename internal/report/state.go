package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/histogram"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// background is the context of a report's queries: they cannot be interrupted.
var background = context.Background()

// mostLatencies limits the processes with their own histogram.
const mostLatencies = 1 << 10

// process is a recorded process with the sums over its dispatches.
type process struct {
	*traceread.Process
	sessions []*session
	uses     []*gpuUse
	waiting  []*gpuUse            // those with waits
	latency  *histogram.Histogram // nil beyond mostLatencies
}

// session is one recording of one process.
type session struct {
	*traceread.Session
	process *process
	on      map[*gpu]*gpuSession
}

// gpuSession is a session on one GPU.
type gpuSession struct {
	session      *session
	use          *gpuUse
	queues       []*queue
	declared     traceread.Span // the session's window; from 0, to LatestNS where an end is not known
	begins, ends bool           // the begin, and the end, of the window are known
	seen         bool           // a kernel of it has run
}

// gpuUse is one process on one GPU, in all of its sessions.
type gpuUse struct {
	gpu      *gpu
	sessions []*gpuSession
	declared intervals // the windows of its sessions
	busy     union
	waits    []barrierWait // that may have ended on another GPU, in the order of their ends
}

// gpu is a device; processes may number it differently.
type gpu struct {
	id         int64
	name       string
	place      Place
	queues     []*queue
	sessions   []*gpuSession
	declared   intervals // the windows of its sessions
	busy       union
	last       *gpuSession      // the session of the kernel that ended last
	lastQueue  *queue           // its queue
	lastKernel int32            // its number, or filteredKernel
	asks       bool             // the causes of its idle times are looked for in threads
	hostSpans  []traceread.Span // room for a gap's
	order      order
	copies     intervals // in which a copy ran
	lost       intervals // in which records were lost
	gaps       idleness
	usage      *ranks.Usage // nil: the trace has no collectives

	backlogged []*queue // queues that have run no recorded kernel yet
}

// queue is an HSA queue of one session with the sums over its dispatches.
type queue struct {
	*traceread.Queue
	gpu      *gpu
	session  *gpuSession
	busy     union
	kernels  int64 // kernels that started in windows.counted
	inside   int64 // kernels that started in windows.window, which may be a part of it
	came     int64 // all kernels
	filtered int64 // kernels that a filter left out, of times that started in windows.counted
	untimed  int64 // dispatches without times, if there is no final account
	before   int64 // packets in front of its windows, not recorded
	firstNS  int64
	lastNS   int64

	packet         int64   // of the last kernel, or before the first; -1: not known
	untimedIndexes []int64 // the first packets of runs without times

	waiting stream
	place   int // in the heap of its GPU's order
}

// state has the sums of an analysis by GPU, queue, session and process.
type state struct {
	trace     *traceread.Trace
	processes []*process
	sessions  map[int64]*session
	gpus      map[int64]*gpu
	queues    map[int64]*queue
	coarse    bool // there are too many packets without times to hold the index of each
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

// addQueues adds the queues and their GPUs: a GPU without a queue is not in a report.
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

// accounted reports whether a session has final accounts and no losses, and the accounts of
// its queues cover everything that the payload counted.
func (s *session) accounted() bool {
	return s.Settled() && !s.RecordsLost && s.Counters.QueuesForeign == 0 &&
		s.Counters.QueuesSeen <= s.QueuesRecorded && s.UnseenClaims() == 0
}

// onGPU returns the session's gpuSession for a GPU.
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

// declare sets the times of the figures of GPUs and processes: the windows of their sessions
// inside the requested window.
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

// readUntimedIndexes reads which packets have no times, up to a limit.
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

// readUntimed counts the dispatches without times of queues without a final account, because
// the recorder was killed.
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
