package tracedb

import (
	"database/sql"
	"encoding/hex"
	"fmt"
)

// A Session is one recording of one process in a file. Its methods are called
// by one goroutine; other sessions of the same file have theirs.
type Session struct {
	db *DB
	id int64

	// The file's ids by the producer's; [0] is the row for "unknown", 0 until needed.
	agents   []int64
	queues   []int64
	launches []int64
	threads  map[uint32]int64
	nameOf   func(tid uint32) string
	contexts map[stream]*contexts
	latest   *contexts // the one used last
	places   int       // in all contexts, used or not
}

// maxThreads bounds the table of thread ids, which the target makes up.
const maxThreads = 1 << 16

// Begin opens a session.
func (db *DB) Begin(info SessionInfo) (*Session, error) {
	s := &Session{
		db: db, threads: map[uint32]int64{}, nameOf: info.ThreadName, contexts: map[stream]*contexts{},
		agents: make([]int64, 1), queues: make([]int64, 1), launches: make([]int64, 1),
	}
	nowNS, offset, err := readOffsets()
	if err != nil {
		return nil, err
	}
	err = db.write(func() (err error) {
		s.id, err = db.insert(`INSERT INTO rtl_session(pid, start_ticks, command, host, tool_version, payload_build_id,
			generation, begun_ns, monotonic_offset_start_ns, realtime_offset_start_ns) VALUES(?,?,?,?,?,?,?,?,?,?)`,
			info.PID, int64(info.StartTicks), info.Command, info.Host, info.ToolVersion, hex.EncodeToString(info.BuildID),
			info.Generation, nowNS, offset.monotonicNS, offset.realtimeNS)
		if err != nil {
			return err
		}
		if s.id == 1 { // readers of the compatible form know one process
			if err := db.metadata("pid", fmt.Sprint(info.PID)); err != nil {
				return err
			}
		}
		if info.Rank != nil {
			if err := db.metadata(fmt.Sprintf(rankTag, s.id), fmt.Sprint(*info.Rank)); err != nil {
				return err
			}
		}
		return s.offsetMetadata("start", offset)
	})
	if err != nil {
		return nil, fmt.Errorf("begin session: %w", err)
	}
	return s, nil
}

// rankTag names a session's rank among the metadata.
const rankTag = "session_%d_rank"

// mostRanks bounds what a trace can make us hold.
const mostRanks = 1 << 14

// Ranks are those of a trace's sessions that have one, by the sessions' ids.
func Ranks(db *sql.DB) (map[int64]int64, error) {
	rows, err := db.Query(`SELECT tag, CAST(value AS INTEGER) FROM rocpd_metadata WHERE tag LIKE 'session\_%\_rank' ESCAPE '\' LIMIT ?`, mostRanks)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ranks := map[int64]int64{}
	for rows.Next() {
		var tag string
		var session, rank int64
		if err := rows.Scan(&tag, &rank); err != nil {
			return nil, err
		}
		if n, _ := fmt.Sscanf(tag, rankTag, &session); n == 1 {
			ranks[session] = rank
		}
	}
	return ranks, rows.Err()
}

func (s *Session) offsetMetadata(when string, o offsets) error {
	tag := fmt.Sprintf("session_%d_%s_", s.id, when)
	if err := s.db.metadata(tag+"monotonic_offset_ns", fmt.Sprint(o.monotonicNS)); err != nil {
		return err
	}
	return s.db.metadata(tag+"realtime_offset_ns", fmt.Sprint(o.realtimeNS))
}

// ID is the session's number in the file.
func (s *Session) ID() int64 { return s.id }

// Flush commits what is due; called at least twice a second.
func (s *Session) Flush() error { return s.db.Flush() }

// Window records when a queue was recorded.
func (s *Session) Window(w Window) error {
	return s.db.write(func() error {
		queue, err := s.queue(w.Queue)
		if err != nil {
			return err
		}
		if !w.Closed {
			return s.db.exec("INSERT INTO rtl_window(queue_id, opened_ns, first_index, raw_before, queued_before) VALUES(?,?,?,?,?)",
				queue, int64(w.OpenNS), int64(w.Index), int64(w.RawBefore), int64(w.QueuedBefore))
		}
		return s.db.exec("INSERT INTO rtl_window VALUES(NULL,?,?,?,?,?,?,?,?,?,?)",
			queue, int64(w.OpenNS), int64(w.CloseNS), int64(w.Index), int64(w.EndIndex),
			int64(w.Dispatches), int64(w.Others), int64(w.After), int64(w.RawBefore), int64(w.QueuedBefore))
	})
}

// Lost records that records are missing.
func (s *Session) Lost(l Loss) error {
	return s.db.write(func() error {
		return s.db.exec("INSERT INTO rtl_loss VALUES(NULL,?,?,?,?,?)",
			s.id, l.Cause, int64(l.Records), orNULL(l.FromNS), orNULL(l.UntilNS))
	})
}

// Pause records a stop of one thread of the target.
func (s *Session) Pause(p Pause) error {
	return s.db.write(func() error {
		return s.db.exec("INSERT INTO rtl_pause VALUES(NULL,?,?,?,?,?)",
			s.id, p.TID, int64(p.StartNS), int64(p.DurationNS), p.Purpose)
	})
}

// Counters records what the payload counted.
func (s *Session) Counters(counters []Counter) error {
	return s.db.write(func() error {
		for _, c := range counters {
			if err := s.db.exec("INSERT INTO rtl_counter VALUES(?,?,?)", s.id, c.Name, int64(c.Value)); err != nil {
				return err
			}
		}
		return nil
	})
}

// End closes the session.
func (s *Session) End(e End) error {
	nowNS, offset, err := readOffsets()
	if err != nil {
		return err
	}
	return s.db.write(func() error {
		for _, c := range e.Coverage {
			queue, err := s.queue(c.Queue)
			if err != nil {
				return err
			}
			err = s.db.exec("INSERT INTO rtl_coverage VALUES(?,?,?,?,?,?,?,?,?,?)",
				queue, int64(c.Windows), int64(c.WindowsOpen), int64(c.Dispatches), int64(c.Timed), int64(c.Untimed),
				c.Unexplained, int64(c.Others), int64(c.After), int64(c.RawBefore))
			if err != nil {
				return err
			}
		}
		if err := s.copyCoverage(e.Copies); err != nil {
			return err
		}
		if err := s.offsetMetadata("end", offset); err != nil {
			return err
		}
		return s.db.exec(`UPDATE rtl_session SET armed_ns = ?, detached_ns = ?, ended_ns = ?, end_reason = ?,
			monotonic_offset_end_ns = ?, realtime_offset_end_ns = ? WHERE id = ?`,
			orNULL(e.ArmedNS), orNULL(e.DetachedNS), nowNS, e.Reason, offset.monotonicNS, offset.realtimeNS, s.id)
	})
}

// orNULL turns "unknown" into what SQL calls it.
func orNULL(v uint64) any {
	if v == 0 {
		return nil
	}
	return int64(v)
}
