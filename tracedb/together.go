package tracedb

// A Fate is what became of one of several processes.
type Fate string

const (
	FateRecorded   Fate = "recorded"    // to the end of the window, and detached
	FateIdle       Fate = "idle"        // likewise, and dispatched nothing
	FateExited     Fate = "exited"      // while it was recorded: the trace holds it to that moment
	FateFailed     Fate = "failed"      // its recording is not whole, or it was never attached to
	FateRefused    Fate = "refused"     // before it was touched
	FatePassedOver Fate = "passed over" // it holds no GPU
	FateNewcomer   Fate = "newcomer"    // it came to hold a GPU during the recording, and is not in it
)

// Target is a process that was to be recorded together with others.
type Target struct {
	PID        int
	StartTicks uint64 // 0: not known
	Command    string
	Rank       *int // nil: it has none
	Fate       Fate
	ExitCode   int // that its recording alone would have ended with
	Text       string
}

// BeginCommon notes since when all targets are recorded.
func (db *DB) BeginCommon(startNS uint64) error {
	return db.write(func() error { return db.exec("INSERT INTO rtl_common(start_ns) VALUES(?)", int64(startNS)) })
}

// EndCommon notes until when they were.
func (db *DB) EndCommon(endNS uint64) error {
	return db.write(func() error {
		return db.exec("UPDATE rtl_common SET end_ns = ? WHERE rowid = (SELECT max(rowid) FROM rtl_common)", int64(endNS))
	})
}

// Targets notes what became of each.
func (db *DB) Targets(targets []Target) error {
	return db.write(func() error {
		for _, t := range targets {
			var rank any
			if t.Rank != nil {
				rank = *t.Rank
			}
			err := db.exec("INSERT INTO rtl_target VALUES(NULL,?,?,?,?,?,?,?)",
				t.PID, orNULL(t.StartTicks), t.Command, rank, string(t.Fate), t.ExitCode, t.Text)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// OrderGPUs numbers the devices of the file anew, in the order in which the driver
// has them: whose session came first, each calling its GPU 0, says nothing.
func (db *DB) OrderGPUs() error {
	return db.write(func() error {
		return db.exec(`UPDATE rtl_agent SET gpu_id = (SELECT count(*)
				FROM (SELECT DISTINCT driver_node AS node, bdf AS place FROM rtl_agent WHERE bdf IS NOT NULL) o
				WHERE (o.node, o.place) < (rtl_agent.driver_node, rtl_agent.bdf))
			WHERE bdf IS NOT NULL`)
	})
}
