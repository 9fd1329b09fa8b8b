package tracedb

import "slices"

// mark is the state of a session in progress that each commit writes.
type mark struct {
	untilNS  uint64
	coverage map[uint32]Coverage // changed since the last commit
	changed  bool

	given, committed uint64 // records
	committedNS      uint64 // untilNS of the last commit
}

// RecordedUntil returns the time up to which the file has everything of all sessions in progress, in ns of
// CLOCK_BOOTTIME; 0: not known. Any goroutine may call it.
func (db *DB) RecordedUntil() (ns uint64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for i, s := range db.sessions {
		until := s.mark.committedNS
		if db.begun.IsZero() { // nothing waits for a commit
			until = s.mark.untilNS
		}
		if i == 0 || until < ns {
			ns = until
		}
	}
	return ns
}

// Mark stores up to which time the records passed to the session are complete. The next
// commit writes it together with them.
func (s *Session) Mark(m Mark) error {
	if err := s.guard.enter(); err != nil {
		return err
	}
	defer s.guard.leave()
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if m.UntilNS > s.mark.untilNS {
		s.mark.untilNS, s.mark.changed = m.UntilNS, true
	}
	s.mark.cover(m.Coverage)
	return s.db.failure
}

func (m *mark) cover(accounts []Coverage) {
	for _, c := range accounts {
		m.coverage[c.Queue], m.changed = c, true
	}
}

// Unwritten returns how many of the records passed to the session are not in the file: not
// yet, or, after an error, never.
func (s *Session) Unwritten() uint64 {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.mark.given - s.mark.committed
}

// CompleteNS returns up to which time the records passed to the session are complete; see Mark.
func (s *Session) CompleteNS() uint64 {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.mark.untilNS
}

// Commit commits what the session has written so far. done: it is in the file. Otherwise other programs
// read the file, and the caller may try again.
func (s *Session) Commit() (done bool, err error) {
	if err := s.guard.enter(); err != nil {
		return false, err
	}
	defer s.guard.leave()
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.db.begun.IsZero() || s.db.failure != nil {
		return true, s.db.failure
	}
	err = s.db.commitAndReserve()
	return s.db.begun.IsZero(), err
}

// write makes the changes for records of the ring.
func (s *Session) write(records int, change func() error) error {
	return s.writeRows(records, records, change)
}

// writeRows makes the changes for records of the ring, and for rows, which wait in memory as records do.
func (s *Session) writeRows(records, rows int, change func() error) error {
	if err := s.guard.enter(); err != nil {
		return err
	}
	defer s.guard.leave()
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.mark.given += uint64(records)
	return s.db.change(rows, change)
}

// add makes a change that does not come from a record of the ring.
func (s *Session) add(change func() error) error {
	if err := s.guard.enter(); err != nil {
		return err
	}
	defer s.guard.leave()
	return s.db.write(change)
}

// writeMark writes the mark as a part of each commit.
func (s *Session) writeMark() error {
	if !s.mark.changed {
		return nil
	}
	for queue, c := range s.mark.coverage {
		if err := s.cover(c); err != nil {
			return err
		}
		delete(s.mark.coverage, queue)
	}
	s.mark.changed = false
	return s.db.exec("UPDATE rtl_session SET recorded_until_ns = ? WHERE id = ?", orNULL(s.mark.untilNS), s.id)
}

// forget stops the marks of a session.
func (db *DB) forget(s *Session) {
	db.sessions = slices.DeleteFunc(db.sessions, func(other *Session) bool { return other == s })
}
