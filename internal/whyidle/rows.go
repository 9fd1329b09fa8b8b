package whyidle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// wait is a row of rtl_cpu_wait: blocked from outNS to wokenNS, ready from wokenNS to inNS. The end of
// its window ends a wait that has no end.
type wait struct {
	id, thread           int64
	outNS, wokenNS, inNS int64
	state                int64
	syscall, request     int64 // syscall: tracedb.Null: none; request: of an ioctl
	gil                  bool  // it waited at a futex of Python's lock
	wakerThread          int64 // tracedb.Null: not a thread of the process
	wakerPID, wakerTID   int64 // 0: not known
	stack                int64 // 0: not known
	preempted            bool
}

// sample is a row of rtl_cpu_sample.
type sample struct {
	id, thread, timeNS, clock, state, stack int64
}

var (
	waitColumns = []string{
		"thread_id", "out_ns", "woken_ns", "in_ns", "state", "syscall", "coalesce(argument0, 0)", "coalesce(argument1, 0)", "waker_thread_id",
		"coalesce(waker_pid, 0)", "coalesce(waker_tid, 0)", "coalesce(stack_id, 0)",
	}
	sampleColumns = []string{"thread_id", "time_ns", "clock", "state", "coalesce(stack_id, 0)"}
)

// waitOf returns the wait in a row; ok is false if no recorder writes such a row.
func (s *sessions) waitOf(v []int64) (w wait, ok bool) {
	w = wait{
		id: v[0], thread: v[1], outNS: v[2], wokenNS: v[3], inNS: v[4], state: v[5], syscall: v[6], wakerThread: v[9], wakerPID: v[10],
		wakerTID: v[11], stack: v[12], preempted: v[5] == 0,
	}
	switch w.syscall {
	case ioctl:
		w.request = v[8] & 0xffffffff
	case futex:
		w.gil = !w.preempted && s.isGIL(w.thread, v[7])
	}
	if w.inNS == tracedb.Null {
		w.inNS = s.windowEnd(w.thread, w.outNS)
	}
	switch {
	case w.preempted:
		w.wokenNS = w.outNS
	case w.wokenNS == tracedb.Null:
		w.wokenNS = w.inNS
	case w.wakerThread == tracedb.Null && w.wakerPID > 0:
		w.wakerThread = s.threadIn(w.wakerPID, w.wakerTID, w.wokenNS)
	}
	return w, w.outNS >= 0 && w.outNS <= w.wokenNS && w.wokenNS <= w.inNS && w.inNS <= traceread.LatestNS
}

func (w *wait) key() orderKey { return orderKey{w.inNS, w.id} }

func sampleOf(v []int64) (s sample, ok bool) {
	s = sample{id: v[0], thread: v[1], timeNS: v[2], clock: v[3], state: v[4], stack: v[5]}
	return s, s.timeNS >= 0 && s.timeNS <= traceread.LatestNS
}

func (s *sample) key() orderKey { return orderKey{s.timeNS, s.id} }

// orderKey is a time, and the row's id.
type orderKey struct{ timeNS, id int64 }

func (k orderKey) before(other orderKey) bool {
	return k.timeNS < other.timeNS || k.timeNS == other.timeNS && k.id < other.id
}

// errDisorder means that rows are far from the order of their times: SQLite must sort them.
var errDisorder = errors.New("rows are far from the order of their times")

// Recorders write rows nearly in the order of their times: a source holds the next reorderRoom rows, and
// moves a row over at most farthest others.
const (
	reorderRoom = 1 << 14
	farthest    = 1 << 12
)

// keyed is a row with a place in the order of time.
type keyed[T any] interface {
	*T
	key() orderKey
}

// source yields the rows of a table in the order of their times.
type source[T any, P keyed[T]] struct {
	fill  func() (more bool, err error) // adds rows
	close func() error
	parse func([]int64) (T, bool)
	held  []T // from head on in the order of their times
	head  int
	room  int // how many rows to hold; 1: SQLite has sorted them
	ended bool
	given orderKey
	any   bool
}

// add adds a row, after the rows that are not later.
func (s *source[T, P]) add(v []int64) error {
	one, ok := s.parse(v)
	if !ok {
		return nil
	}
	s.held = append(s.held, one)
	at, key := len(s.held)-1, P(&one).key()
	least := max(s.head, at-farthest)
	for ; at > least && key.before(P(&s.held[at-1]).key()); at-- {
		s.held[at] = s.held[at-1]
	}
	s.held[at] = one
	if s.room > 1 && (at > s.head && key.before(P(&s.held[at-1]).key()) || s.any && key.before(s.given)) {
		return errDisorder
	}
	return nil
}

// ready fills the source. Afterwards it holds the next row, or there is none.
func (s *source[T, P]) ready() error {
	for !s.ended && len(s.held)-s.head < s.room {
		more, err := s.fill()
		if err != nil {
			return err
		}
		s.ended = !more
	}
	return nil
}

// nextNS returns the time of the next row; LatestNS + 1 if there is none.
func (s *source[T, P]) nextNS() int64 {
	if len(s.held) == s.head {
		return traceread.LatestNS + 1
	}
	return P(&s.held[s.head]).key().timeNS
}

// take returns the next row, which there must be.
func (s *source[T, P]) take() (one T, err error) {
	one = s.held[s.head]
	s.given, s.any = P(&one).key(), true
	if s.head++; s.head >= s.room {
		s.held, s.head = s.held[:copy(s.held, s.held[s.head:])], 0
	}
	return one, s.ready()
}

// inRecordedOrder reads a table in the order of its ids.
func inRecordedOrder[T any, P keyed[T]](tr *traceread.Trace, table string, columns []string, parse func([]int64) (T, bool)) (*source[T, P], error) {
	blocks, err := tracedb.ReadBlocks(tr.DB, table, columns...)
	if err != nil {
		return nil, err
	}
	s := &source[T, P]{parse: parse, close: blocks.Close, room: reorderRoom}
	var values []int64
	s.fill = func() (bool, error) {
		var err error
		if values, err = blocks.Next(values); err != nil {
			return false, err
		}
		for v := values; len(v) > 0; v = v[blocks.Width():] {
			if err := s.add(v[:blocks.Width()]); err != nil {
				return false, err
			}
		}
		return len(values) > 0, nil
	}
	return s, s.ready()
}

// inTimeOrder has SQLite sort a table in temporary files. Pages that refer to each other in a cycle
// yield endless rows; the OFFSET keeps SQLite from moving the LIMIT outwards.
func inTimeOrder[T any, P keyed[T]](ctx context.Context, tr *traceread.Trace, table, order string, columns []string, parse func([]int64) (T, bool)) (*source[T, P], error) {
	rows, err := tr.DB.QueryContext(ctx, fmt.Sprintf("SELECT id, %s FROM (SELECT * FROM %s LIMIT ? OFFSET 0) x ORDER BY %s, id",
		strings.Join(columns, ", "), table, order), tr.MostRows)
	if err != nil {
		return nil, err
	}
	s := &source[T, P]{parse: parse, close: rows.Close, room: 1}
	values := make([]sql.NullInt64, len(columns)+1)
	into, v := make([]any, len(values)), make([]int64, len(values))
	for i := range values {
		into[i] = &values[i]
	}
	left := tr.MostRows
	s.fill = func() (bool, error) {
		if !rows.Next() {
			return false, rows.Err()
		}
		if left--; left < 0 {
			return false, traceread.ErrEndless
		}
		if err := rows.Scan(into...); err != nil {
			return false, fmt.Errorf("%w: %w", traceread.ErrImpossible, err)
		}
		for i, one := range values {
			if v[i] = one.Int64; !one.Valid {
				v[i] = tracedb.Null
			}
		}
		return true, s.add(v)
	}
	return s, s.ready()
}
