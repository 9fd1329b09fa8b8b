package tracedb

import (
	"cmp"
	"database/sql"
	"encoding/hex"
	"fmt"
)

// Session is one recording of one process in a file. One goroutine at a time may call
// its methods; other sessions of the same file may have other goroutines.
type Session struct {
	db    *DB
	id    int64
	guard *Guard

	// Row ids by the producer's ids; [0] is the row for "unknown", 0 until needed.
	agents   []int64
	queues   []int64
	launches []int64
	threads  map[uint32]int64
	nameOf   func(tid uint32) string
	contexts map[stream]*contexts
	latest   *contexts // the last one used
	places   int       // in all contexts, used or not

	windows map[uint32]int64 // rows of open windows by the producer's queue
	mark    mark
}

// maxThreads limits the table of thread ids: the target can invent them.
const maxThreads = 1 << 16

// Begin opens a session.
func (db *DB) Begin(info SessionInfo) (*Session, error) {
	s := &Session{
		db: db, guard: info.Guard, threads: map[uint32]int64{}, nameOf: info.ThreadName, contexts: map[stream]*contexts{},
		windows: map[uint32]int64{}, mark: mark{coverage: map[uint32]Coverage{}},
		agents: make([]int64, 1), queues: make([]int64, 1), launches: make([]int64, 1),
	}
	nowNS, offset, err := readOffsets()
	if err != nil {
		return nil, err
	}
	nowNS = cmp.Or(int64(info.BegunNS), nowNS)
	if err := s.guard.enter(); err != nil {
		return nil, err
	}
	defer s.guard.leave()
	err = db.write(func() (err error) {
		s.id, err = db.insert(`INSERT INTO rtl_session(pid, start_ticks, command, host, tool_version, payload_build_id,
			generation, begun_ns, armed_ns, window_start_ns, recorder_pid, recorder_start_ticks, recorder_pid_namespace,
			monotonic_offset_start_ns, realtime_offset_start_ns) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			info.PID, int64(info.StartTicks), info.Command, info.Host, info.ToolVersion, hex.EncodeToString(info.BuildID),
			info.Generation, nowNS, orNULL(info.ArmedNS), orNULL(cmp.Or(info.WindowNS, info.ArmedNS)), info.Recorder.PID,
			int64(info.Recorder.StartTicks), int64(info.Recorder.PIDNamespace), offset.monotonicNS, offset.realtimeNS)
		if err != nil {
			return err
		}
		if s.id == 1 { // readers of the compatible views expect one process
			if err := db.metadata("pid", fmt.Sprint(info.PID)); err != nil {
				return err
			}
		}
		if info.Rank != nil {
			if err := db.metadata(fmt.Sprintf(rankTag, s.id), fmt.Sprint(*info.Rank)); err != nil {
				return err
			}
		}
		db.sessions = append(db.sessions, s)
		db.due = true
		return s.offsetMetadata("start", offset)
	})
	if err != nil {
		return nil, fmt.Errorf("begin session: %w", err)
	}
	return s, nil
}

// rankTag is the metadata tag of a session's rank.
const rankTag = "session_%d_rank"

// mostRanks limits the memory that a trace can make Ranks use.
const mostRanks = 1 << 14

// Ranks returns the ranks of a trace's sessions by session id. Sessions without a rank
// are left out.
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

// ID returns the session's number in the file.
func (s *Session) ID() int64 { return s.id }

// Flush commits if a commit is due. The caller calls it at least twice a second.
func (s *Session) Flush() error {
	if err := s.guard.enter(); err != nil {
		return err
	}
	defer s.guard.leave()
	return s.db.Flush()
}

// Window writes a window of a queue, once when it opens and once when it closes. The next
// Flush commits it.
func (s *Session) Window(w Window) error {
	return s.write(1, func() (err error) {
		s.db.due = true
		row, isOpen := s.windows[w.Queue]
		if !isOpen || !w.Closed {
			if row, err = s.openWindow(w); err != nil {
				return err
			}
			s.windows[w.Queue] = row
		}
		if !w.Closed {
			return nil
		}
		delete(s.windows, w.Queue)
		return s.db.exec(`UPDATE rtl_window SET closed_ns = ?, end_index = ?, dispatches = ?, others = ?, after_detach = ? WHERE id = ?`,
			int64(w.CloseNS), int64(w.EndIndex), int64(w.Dispatches), int64(w.Others), int64(w.After), row)
	})
}

func (s *Session) openWindow(w Window) (int64, error) {
	queue, err := s.queue(w.Queue)
	if err != nil {
		return 0, err
	}
	return s.db.insert("INSERT INTO rtl_window(queue_id, opened_ns, first_index, raw_before, queued_before) VALUES(?,?,?,?,?)",
		queue, int64(w.OpenNS), int64(w.Index), int64(w.RawBefore), int64(w.QueuedBefore))
}

// Lost writes a number of missing records.
func (s *Session) Lost(l Loss) error {
	return s.write(1, func() error {
		return s.db.exec("INSERT INTO rtl_loss VALUES(NULL,?,?,?,?,?)",
			s.id, l.Cause, int64(l.Records), orNULL(l.FromNS), orNULL(l.UntilNS))
	})
}

// Unavailable writes that a kind of record was asked for and cannot be recorded in the session.
func (s *Session) Unavailable(u Unavailable) error {
	return s.write(1, func() error {
		return s.db.exec("INSERT OR IGNORE INTO rtl_kind_unavailable VALUES(?,?,?)", s.id, u.Kind, u.Reason)
	})
}

// Pause writes a stop of one thread of the target.
func (s *Session) Pause(p Pause) error {
	return s.add(func() error {
		return s.db.exec("INSERT INTO rtl_pause VALUES(NULL,?,?,?,?,?)",
			s.id, p.TID, int64(p.StartNS), int64(p.DurationNS), p.Purpose)
	})
}

// Counters writes the payload's counters.
func (s *Session) Counters(counters []Counter) error {
	return s.add(func() error {
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
	return s.add(func() error {
		s.db.forget(s)
		for _, c := range e.Coverage {
			if err := s.cover(c); err != nil {
				return err
			}
		}
		for _, k := range e.Kinds {
			err := s.db.exec("INSERT INTO rtl_kind_coverage VALUES(?,?,?,?,?,?)",
				s.id, k.Kind, int64(k.Begun), int64(k.Timed), int64(k.Untimed), k.Unexplained)
			if err != nil {
				return err
			}
		}
		if err := s.offsetMetadata("end", offset); err != nil {
			return err
		}
		if err := s.describeEnd(e); err != nil {
			return err
		}
		return s.db.exec(`UPDATE rtl_session SET ended_ns = ?, recorded_until_ns = coalesce(?, recorded_until_ns),
			monotonic_offset_end_ns = ?, realtime_offset_end_ns = ? WHERE id = ?`,
			nowNS, orNULL(e.UntilNS), offset.monotonicNS, offset.realtimeNS, s.id)
	})
}

// EndUnwritten writes how the session ended, and what is missing, to a trace after a write
// has failed. The accounts stay open. It returns an error if it cannot write even that.
func (s *Session) EndUnwritten(e End, missing Loss) error {
	if err := s.guard.enter(); err != nil {
		return err
	}
	defer s.guard.leave()
	return s.db.afterFailure(func() error {
		s.db.forget(s)
		if err := s.describeEnd(e); err != nil {
			return err
		}
		return s.db.exec(`INSERT INTO rtl_loss(session_id, cause, records, from_ns, until_ns)
			SELECT id, ?, ?, recorded_until_ns, ? FROM rtl_session WHERE id = ?`,
			missing.Cause, int64(missing.Records), orNULL(missing.UntilNS), s.id)
	})
}

// describeEnd writes how and when the session ended. Its accounts stay open.
func (s *Session) describeEnd(e End) error {
	return s.db.exec(`UPDATE rtl_session SET armed_ns = coalesce(?1, armed_ns), window_start_ns = coalesce(window_start_ns, ?1),
		detached_ns = ?2, window_end_ns = ?3, end_reason = ?4 WHERE id = ?5`,
		orNULL(e.ArmedNS), orNULL(e.DetachedNS), orNULL(e.WindowEndNS), e.Reason, s.id)
}

// cover writes the account of a queue, and replaces an earlier one.
func (s *Session) cover(c Coverage) error {
	queue, err := s.queue(c.Queue)
	if err != nil {
		return err
	}
	return s.db.exec("INSERT OR REPLACE INTO rtl_coverage VALUES(?,?,?,?,?,?,?,?,?,?)",
		queue, int64(c.Windows), int64(c.WindowsOpen), int64(c.Dispatches), int64(c.Timed), int64(c.Untimed),
		c.Unexplained, int64(c.Others), int64(c.After), int64(c.RawBefore))
}

// orNULL returns NULL for 0, which means "unknown".
func orNULL(v uint64) any {
	if v == 0 {
		return nil
	}
	return int64(v)
}
