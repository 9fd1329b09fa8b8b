package tracedb

// Outcome is how the recording of one of several processes ended.
type Outcome string

// Outcomes of processes.
const (
	OutcomeRecorded   Outcome = "recorded"     // recorded to the end of the window, and detached
	OutcomeIdle       Outcome = "idle"         // recorded to the end, without a dispatch
	OutcomeExited     Outcome = "exited"       // exited during the recording; the trace is complete to that moment
	OutcomeFailed     Outcome = "failed"       // the recording is incomplete, or never began
	OutcomeRefused    Outcome = "refused"      // the tool refused the process before it touched it
	OutcomePassedOver Outcome = "passed over"  // the process uses no GPU
	OutcomeOtherRank  Outcome = "not selected" // its rank was not selected
	OutcomeJoined     Outcome = "joined"       // the process began to use a GPU during the recording, and is recorded from the tool's attach on
	OutcomeLateWorker Outcome = "late worker"  // the process began to use a GPU during the recording, and is not in it
)

// Target is one of several processes to record together.
type Target struct {
	PID        int
	StartTicks uint64 // 0: not known
	Command    string
	Rank       *int // nil: it has none
	Outcome    Outcome
	ExitCode   int // the tool's, if it had recorded this process alone
	Detail     string
}

// BeginCommon writes the begin of the declared window of all targets.
func (db *DB) BeginCommon(startNS uint64) error {
	return db.write(func() error {
		db.due = true
		return db.exec("INSERT INTO rtl_common(start_ns) VALUES(?)", int64(startNS))
	})
}

// EndCommon writes the end of the declared window of all targets.
func (db *DB) EndCommon(endNS uint64) error {
	return db.write(func() error {
		return db.exec("UPDATE rtl_common SET end_ns = ? WHERE rowid = (SELECT max(rowid) FROM rtl_common)", int64(endNS))
	})
}

// Targets writes the outcome of each target.
func (db *DB) Targets(targets []Target) error {
	return db.write(func() error {
		for _, t := range targets {
			var rank any
			if t.Rank != nil {
				rank = *t.Rank
			}
			err := db.exec("INSERT INTO rtl_target VALUES(NULL,?,?,?,?,?,?,?)",
				t.PID, orNULL(t.StartTicks), t.Command, rank, string(t.Outcome), t.ExitCode, t.Detail)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// OrderGPUs renumbers the devices of the file in the driver's order: each process numbers
// its first GPU 0, and the order of the sessions has no meaning.
func (db *DB) OrderGPUs() error {
	return db.write(func() error {
		return db.exec(`UPDATE rtl_agent SET gpu_id = (SELECT count(*)
				FROM (SELECT DISTINCT driver_node AS node, bdf AS place FROM rtl_agent WHERE bdf IS NOT NULL) o
				WHERE (o.node, o.place) < (rtl_agent.driver_node, rtl_agent.bdf))
			WHERE bdf IS NOT NULL`)
	})
}
