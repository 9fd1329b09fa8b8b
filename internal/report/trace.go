package report

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

var (
	// ErrImpossible: the trace says what no recorder writes, beyond what can be held.
	ErrImpossible = errors.New("not what a recorder writes")
	// ErrNoRoom: SQLite found no room for sorting.
	ErrNoRoom = errors.New("no space left")
)

// latest is beyond every clock, and leaves room for the sum of two times.
const latest = 1<<62 - 1

// Bounds of what is held as a whole. Recorders stay far below them.
const (
	mostDefinitions = 1 << 18
	mostGPUs        = 1 << 12
	mostSessions    = 1 << 14
	mostKernels     = 1 << 20 // different names
	mostLatencies   = 1 << 10 // processes with a histogram of their own
)

// A process is one that was recorded, in one or several sessions.
type process struct {
	pid           int64
	rank          *int64 // nil: not known
	command, host string
	sessions      []*session
	shares        []*share
	latency       *histogram // nil beyond mostLatencies
}

// A session is one recording of one process. Times are CLOCK_BOOTTIME ns; 0: not known.
// Where the target died and left no last record, they are the recorder's own: it begins
// after the hooks, and ends when it sees that.
type session struct {
	id, armedNS, detachedNS int64
	settled                 bool // its accounts are in the trace
	unseen                  bool // there was work that no queue's account holds
	process                 *process
	stays                   map[*gpu]*stay
}

// A stay is a session on one GPU. It reaches from the hooks to their removal,
// and on to the end of the last kernel that was waited for.
type stay struct {
	session        *session
	share          *share
	queues         []*queue
	beginNS, endNS int64 // with the kernels so far; endNS 0: not known
	seen           bool  // a kernel of it has run
}

// A share is what one process had of one GPU.
type share struct {
	gpu   *gpu
	stays []*stay
	busy  union
}

// A gpu is a device, whatever number each process gives it.
type gpu struct {
	id     int64
	name   string
	place  Place
	queues []*queue
	stays  []*stay
	busy   union
	last   *stay // of the kernel that ended last
	order  order
	copies stretches // in which a copy ran
	lost   stretches // in which records were lost
	gaps   idleness

	backlogged []*queue // of which nothing has been seen yet
}

// A queue is one of one session.
type queue struct {
	id, hsaID int64 // hsaID -1: not known
	gpu       *gpu
	stay      *stay
	windows   []span
	account   account
	busy      union
	kernels   int64 // that started in the time that is asked for
	inside    int64 // that started in the window, which may be a part of that
	came      int64 // in all
	untimed   int64 // dispatches without times, where no account was settled
	before    int64 // packets in front of its windows, which nobody saw
	firstNS   int64
	lastNS    int64

	packet int64   // of the last kernel, or before the first; -1: not known
	unseen []int64 // where runs of packets without times begin

	waiting stream
	place   int // in the heap of its GPU's order
}

// An account is what the recorder settled for a queue.
type account struct {
	settled                               bool
	windows, dispatches, timed, rawBefore int64
	open, lost                            bool // its end was not seen; records are missing
}

// A trace is what dispatches refer to.
type trace struct {
	db        *sql.DB
	processes []*process
	sessions  map[int64]*session
	gpus      map[int64]*gpu
	queues    map[int64]*queue
	coarse    bool // too many packets without times to know each
}

func readTrace(db *sql.DB) (*trace, error) {
	tr := &trace{db: db, sessions: map[int64]*session{}, gpus: map[int64]*gpu{}, queues: map[int64]*queue{}}
	for _, step := range []struct {
		what string
		read func() error
	}{
		{"sessions", tr.readSessions},
		{"ranks", tr.readRanks},
		{"queues", tr.readQueues},
		{"windows", tr.readWindows},
		{"backlogs", tr.findBacklogs},
		{"accounts", tr.readAccounts},
		{"packets without times", tr.readUnseen},
		{"dispatches without times", tr.readUntimed},
		{"counters", tr.readCounters},
		{"copies", tr.readCopies},
		{"losses", tr.readLosses},
	} {
		if err := step.read(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	for _, g := range tr.gpus {
		g.order.room = max(orderRoom/len(tr.gpus), leastOrderRoom)
	}
	return tr, nil
}

func (tr *trace) readSessions() error {
	type key struct {
		host            string
		pid, startTicks int64
	}
	known := map[key]*process{}
	return each(tr.db, func(r *sql.Rows) error {
		var k key
		var command string
		s := &session{stays: map[*gpu]*stay{}}
		err := r.Scan(&s.id, &k.pid, &k.startTicks, &command, &k.host, &s.armedNS, &s.detachedNS, &s.settled)
		p := known[k]
		if p == nil {
			p = &process{pid: k.pid, command: command, host: k.host}
			known[k] = p
			tr.processes = append(tr.processes, p)
		}
		s.process, s.unseen = p, !s.settled
		p.sessions = append(p.sessions, s)
		tr.sessions[s.id] = s
		if len(tr.sessions) > mostSessions {
			return fmt.Errorf("over %d sessions", mostSessions)
		}
		return err
	}, `SELECT id, pid, start_ticks, substr(command, 1, ?), substr(host, 1, ?), coalesce(armed_ns, begun_ns),
		coalesce(detached_ns, ended_ns, 0), ended_ns IS NOT NULL FROM rtl_session ORDER BY id`, longestWord, longestWord)
}

func (tr *trace) readRanks() error {
	ranks, err := tracedb.Ranks(tr.db)
	for id, rank := range ranks {
		if s := tr.sessions[id]; s != nil {
			s.process.rank = &rank
		}
	}
	return err
}

// readQueues also finds the GPUs: those without a queue are not spoken of.
func (tr *trace) readQueues() error {
	return each(tr.db, func(r *sql.Rows) error {
		var of, gpuID int64
		var name string
		var at Place
		q := &queue{packet: -1}
		if err := r.Scan(&q.id, &of, &q.hsaID, &gpuID, &name, &at.bdf, &at.DriverNode); err != nil {
			return err
		}
		s := tr.sessions[of]
		if s == nil {
			return nil
		}
		g := tr.gpus[gpuID]
		if g == nil {
			if len(tr.gpus) == mostGPUs {
				return fmt.Errorf("over %d GPUs: %w", mostGPUs, ErrImpossible)
			}
			g = &gpu{id: gpuID, place: at.named()}
			tr.gpus[gpuID] = g
		}
		g.name = max(g.name, name)
		g.queues = append(g.queues, q)
		q.gpu, q.stay = g, s.on(g)
		q.stay.queues = append(q.stay.queues, q)
		tr.queues[q.id] = q
		return nil
	}, `SELECT q.id, q.session_id, coalesce(q.hsa_id, -1), a.gpu_id, coalesce(substr(n.string, 1, ?), ''), a.bdf, a.driver_node
		FROM rtl_queue q JOIN rtl_agent a ON a.id = q.agent_id LEFT JOIN rocpd_string n ON n.id = a.name_id
		ORDER BY q.id`, longestWord)
}

// on returns the session's stay on a GPU.
func (s *session) on(g *gpu) *stay {
	if known := s.stays[g]; known != nil {
		return known
	}
	at := slices.IndexFunc(s.process.shares, func(sh *share) bool { return sh.gpu == g })
	if at < 0 {
		at = len(s.process.shares)
		s.process.shares = append(s.process.shares, &share{gpu: g})
	}
	st := &stay{session: s, share: s.process.shares[at], beginNS: s.armedNS, endNS: s.detachedNS}
	st.share.stays = append(st.share.stays, st)
	g.stays = append(g.stays, st)
	s.stays[g] = st
	return st
}

func (tr *trace) readWindows() error {
	column := "queued_before"
	if has, err := tracedb.HasQueuedBefore(tr.db); err != nil {
		return err
	} else if !has {
		column = "0"
	}
	return each(tr.db, func(r *sql.Rows) error {
		var of, opened, closed, first, before int64
		err := r.Scan(&of, &opened, &closed, &first, &before)
		q := tr.queues[of]
		if q == nil {
			return err
		}
		if len(q.windows) == 0 {
			q.packet = first - 1
		}
		if closed == 0 {
			closed = q.stay.endNS
		}
		q.windows = append(q.windows, span{opened, closed})
		q.before = sum(q.before, max(0, before))
		return err
	}, `SELECT queue_id, opened_ns, coalesce(closed_ns, 0), first_index, `+column+` FROM rtl_window ORDER BY queue_id, opened_ns`)
}

func (tr *trace) readAccounts() error {
	return each(tr.db, func(r *sql.Rows) error {
		var of int64
		a := account{settled: true}
		err := r.Scan(&of, &a.windows, &a.open, &a.dispatches, &a.timed, &a.lost, &a.rawBefore)
		if q := tr.queues[of]; q != nil {
			q.account = a
		}
		return err
	}, `SELECT queue_id, windows, windows_open > 0,
		CASE WHEN windows_open > 0 THEN max(dispatches, timed + untimed) ELSE dispatches END,
		timed, unexplained <> 0, raw_before FROM rtl_coverage`)
}

// readUnseen keeps which packets have no times, as far as there is room.
func (tr *trace) readUnseen() error {
	blocks, err := tracedb.ReadBlocks(tr.db, "rtl_untimed", "queue_id", "packet_index")
	if err != nil {
		return err
	}
	defer blocks.Close()
	var values []int64
	for n := 0; ; {
		if values, err = blocks.Next(values); err != nil || len(values) == 0 {
			break
		}
		if n += len(values); n > mostDefinitions*blocks.Width() {
			tr.coarse = true
			break
		}
		for at := 0; at < len(values); at += blocks.Width() {
			if q := tr.queues[values[at+1]]; q != nil {
				q.unseen = append(q.unseen, values[at+2])
			}
		}
	}
	for _, q := range tr.queues {
		slices.Sort(q.unseen)
	}
	return err
}

// readUntimed counts what came without times where a recorder that was killed has
// settled no account.
func (tr *trace) readUntimed() error {
	cutOff := func(s *session) bool { return !s.settled }
	if !slices.ContainsFunc(slices.Collect(maps.Values(tr.sessions)), cutOff) {
		return nil
	}
	return each(tr.db, func(r *sql.Rows) error {
		var of, packets int64
		err := r.Scan(&of, &packets)
		if q := tr.queues[of]; q != nil && !q.account.settled {
			q.untimed = max(0, packets)
		}
		return err
	}, `SELECT u.queue_id, CAST(total(u.packets) AS INTEGER) FROM rtl_untimed u JOIN rtl_reason r ON r.id = u.reason_id
		WHERE r.name <> 'after-detach' GROUP BY u.queue_id`)
}

// readCounters finds the sessions in which there was work that no queue's account holds.
func (tr *trace) readCounters() error {
	seen, claimed := map[int64]int64{}, map[int64]int64{}
	for _, q := range tr.queues {
		s := q.stay.session.id
		claimed[s] += max(0, min(q.account.rawBefore, latest-claimed[s]))
		if q.account.windows > 0 {
			seen[s]++
		}
	}
	mark := func(r *sql.Rows) error {
		var of, queues, foreign, claims int64
		err := r.Scan(&of, &queues, &foreign, &claims)
		if s := tr.sessions[of]; s != nil && (foreign > 0 || queues > seen[of] || claims > claimed[of]) {
			s.unseen = true
		}
		return err
	}
	err := each(tr.db, mark, `SELECT session_id, CAST(total(value) FILTER (WHERE name = ?) AS INTEGER),
		CAST(total(value) FILTER (WHERE name = ?) AS INTEGER), CAST(total(value) FILTER (WHERE name = ?) AS INTEGER)
		FROM rtl_counter GROUP BY session_id`,
		tracedb.CounterQueuesSeen, tracedb.CounterQueuesForeign, tracedb.CounterRawClaims)
	if err != nil {
		return err
	}
	return each(tr.db, mark, "SELECT session_id, 0, count(*), 0 FROM rtl_loss GROUP BY session_id")
}
