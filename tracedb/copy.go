package tracedb

import (
	"database/sql"
	_ "embed"
)

//go:embed copy.sql
var copySchema string

//go:embed views.sql
var viewSchema string

// Copy is a memory copy that the application asked the runtime for.
type Copy struct {
	StartNS   uint64 // with a reason: not known
	EndNS     uint64
	SubmitNS  uint64
	Bytes     uint64
	From, To  uint32 // agents; 0: host memory
	TID       uint32
	Direction uint16 // ring.Direction
	Reason    uint16 // ring.Reason; 0: it has times
}

// CopyCoverage is what was seen of a session's copies.
type CopyCoverage struct {
	Begun       uint64 // while recording, as the payload counted them
	Timed       uint64
	Untimed     uint64
	Unexplained int64 // begun, and nothing here accounts for them
}

func newCopyBulk(conn preparer) (*bulk, error) {
	return newBulk(conn, "rtl_copy", "session_id", "thread_id", "from_agent_id", "to_agent_id", "direction", "bytes",
		"reason_id", "submit_ns", "start_ns", "duration_ns")
}

// Copies records a batch of copies.
func (s *Session) Copies(batch []Copy) error {
	return s.write(len(batch), func() error {
		for i := range batch {
			if err := s.copy(&batch[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Session) copy(c *Copy) error {
	thread, err := s.thread(c.TID)
	if err != nil {
		return err
	}
	from, err := s.memory(c.From)
	if err != nil {
		return err
	}
	to, err := s.memory(c.To)
	if err != nil {
		return err
	}
	start, duration, submit := null, null, null
	if c.Reason == 0 {
		start, duration = int64(c.StartNS), int64(c.EndNS-c.StartNS)
	}
	if c.SubmitNS != 0 {
		submit = int64(c.SubmitNS)
	}
	if s.db.copies.add(s.id, thread, from, to, int64(c.Direction), int64(c.Bytes), int64(c.Reason), submit, start, duration) {
		return s.db.copies.flush()
	}
	return nil
}

// memory is the row of the agent whose memory it is; null: the host's.
func (s *Session) memory(agent uint32) (int64, error) {
	if agent == 0 {
		return null, nil
	}
	return s.agent(agent)
}

func (s *Session) copyCoverage(c *CopyCoverage) error {
	if c == nil {
		return nil
	}
	return s.db.exec("INSERT INTO rtl_copy_coverage VALUES(?,?,?,?,?)",
		s.id, int64(c.Begun), int64(c.Timed), int64(c.Untimed), c.Unexplained)
}

// HasCopies says whether a trace has the tables of copies: older versions of
// the tool made none.
func HasCopies(db *sql.DB) (bool, error) {
	var tables int
	err := db.QueryRow("SELECT count(*) FROM main.sqlite_master WHERE name IN ('rtl_copy', 'rtl_copy_coverage')").Scan(&tables)
	return tables == 2, err
}
