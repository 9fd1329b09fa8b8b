package calls

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Stream sums up the kernels of a HIP stream.
type Stream struct {
	PID     int64 `json:"pid"`
	Stream  int64 `json:"stream"`           // the handle; 0: the default stream
	Thread  int64 `json:"thread,omitempty"` // whose own default stream it is (handle 2)
	Kernels int64 `json:"kernels"`
	GPUNS   int64 `json:"gpu_ns"` // the sum of the kernels' times

	key StreamKey
}

// StreamKey identifies a stream. thread is a row of rtl_thread, and 0 but for a thread's own default stream.
type StreamKey struct{ session, handle, thread int64 }

// KeyOf returns the key of a stream that a call on a thread used.
func KeyOf(session, thread, handle int64) StreamKey {
	if handle != perThreadStream {
		thread = 0
	}
	return StreamKey{session, handle, thread}
}

// Limits of a report's sums.
const (
	mostStreams = 1 << 14 // in memory; kernels of others are not counted
	mostRows    = 100     // in a report
)

type streamSums map[StreamKey]*Stream

func (s streamSums) add(session, thread, handle, durationNS int64) {
	if handle == tracedb.Null {
		return
	}
	key := KeyOf(session, thread, handle)
	one := s[key]
	if one == nil {
		if len(s) >= mostStreams {
			return
		}
		one = &Stream{Stream: handle, key: key}
		s[key] = one
	}
	one.Kernels++
	one.GPUNS = traceread.Sum(one.GPUNS, durationNS)
}

// largest returns the streams with most time, and the number of all.
func (s streamSums) largest() ([]Stream, int64) {
	all := make([]Stream, 0, len(s))
	for _, one := range s {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Stream) int {
		return cmp.Or(cmp.Compare(b.GPUNS, a.GPUNS), cmp.Compare(a.key.session, b.key.session), cmp.Compare(a.Stream, b.Stream),
			cmp.Compare(a.key.thread, b.key.thread))
	})
	return all[:min(len(all), mostRows)], int64(len(all))
}

// StreamWait counts how often a stream was made to wait for an event that was recorded in another one.
type StreamWait struct {
	PID    int64 `json:"pid"`
	Stream int64 `json:"stream"`
	For    int64 `json:"for_stream"`
	Calls  int64 `json:"calls"`

	session int64
}

// readWaits counts the waits between streams. Only the calls that concern events are read, in the order of
// their times.
func (c *Report) readWaits(r *kind.Reading, known map[int64]*named) error {
	rows := rowsOf(known, func(name string) bool { return recordsEvent[name] || waitsForEvent[name] })
	if rows == "" {
		return nil
	}
	type event struct{ session, handle int64 }
	recorded, sums := map[event]StreamKey{}, map[[2]StreamKey]int64{}
	err := r.Trace.Each(r.Ctx, func(row traceread.Row) error {
		var function, session, thread, startNS, first, second int64
		if err := row.Scan(&function, &session, &thread, &startNS, &first, &second); err != nil {
			return err
		}
		if recordsEvent[known[function].name] {
			if len(recorded) >= traceread.MostDefinitions {
				clear(recorded)
			}
			recorded[event{session, first}] = KeyOf(session, thread, known[function].stream(second))
			return nil
		}
		of, ok := recorded[event{session, second}]
		pair := [2]StreamKey{KeyOf(session, thread, known[function].stream(first)), of}
		if _, counted := sums[pair]; !ok || pair[0] == pair[1] || !counted && len(sums) >= mostStreams {
			return nil
		}
		if startNS >= r.Window.BeginNS && startNS < r.Window.EndNS {
			sums[pair]++
		}
		return nil
	}, fmt.Sprintf(`SELECT function_id, session_id, coalesce(thread_id, 0), start_ns, coalesce(rtl_word(arguments, 0), 0),
			coalesce(rtl_word(arguments, 1), 0)
		FROM rtl_call WHERE function_id IN (%s) AND result = 0 ORDER BY start_ns, id`, rows))
	for pair, calls := range sums {
		c.StreamWaits = append(c.StreamWaits, StreamWait{Stream: pair[0].handle, For: pair[1].handle, Calls: calls, session: pair[0].session})
		c.WaitsInAll = traceread.Sum(c.WaitsInAll, calls)
	}
	slices.SortFunc(c.StreamWaits, func(a, b StreamWait) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.session, b.session), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.For, b.For))
	})
	c.StreamWaits = c.StreamWaits[:min(len(c.StreamWaits), mostRows)]
	return err
}

// nameStreams fills in the processes and threads of streams and graphs.
func (c *Report) nameStreams(r *kind.Reading) error {
	pid := func(session int64) int64 {
		if s := r.Trace.Session(session); s != nil {
			return s.Process.ID.PID
		}
		return 0
	}
	own := map[int64][]*Stream{} // threads' own default streams, by the threads' rows
	for i := range c.Streams {
		s := &c.Streams[i]
		s.PID = pid(s.key.session)
		if s.key.thread != 0 {
			own[s.key.thread] = append(own[s.key.thread], s)
		}
	}
	for i := range c.StreamWaits {
		c.StreamWaits[i].PID = pid(c.StreamWaits[i].session)
	}
	for i := range c.Graphs {
		c.Graphs[i].PID = pid(c.Graphs[i].key.session)
	}
	if len(own) == 0 {
		return nil
	}
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var id, tid int64
		err := row.Scan(&id, &tid)
		for _, s := range own[id] {
			s.Thread = tid
		}
		return err
	}, "SELECT id, tid FROM rtl_thread")
}
