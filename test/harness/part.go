package harness

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Part is the part of a session that a trigger of a flight recorder has written.
type Part struct {
	tracedb.Trigger
	Reason         string // of the session's end
	EndNS, UntilNS int64  // of the declared window; up to where the records are complete
}

// ReadPart reads what a trace of one process says of its trigger.
func ReadPart(t testing.TB, path string) Part {
	t.Helper()
	parts := ReadParts(t, path)
	if len(parts) != 1 {
		t.Fatalf("%s: the sessions of %d processes", path, len(parts))
	}
	for _, p := range parts {
		return p
	}
	return Part{}
}

// ReadParts reads what a trace says of its trigger, by pid. No process has several sessions.
func ReadParts(t testing.TB, path string) map[int]Part {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer db.Close()
	parts := map[int]Part{}
	rows, err := db.Query("SELECT id, pid, window_start_ns, window_end_ns, coalesce(recorded_until_ns, 0), end_reason FROM rtl_session")
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer rows.Close()
	for rows.Next() {
		var p Part
		var id, start int64
		var pid int
		if err := rows.Scan(&id, &pid, &start, &p.EndNS, &p.UntilNS, &p.Reason); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		trigger, err := tracedb.TriggerOf(db, id)
		if err != nil || trigger == nil {
			t.Fatalf("%s: session %d has no trigger: %v", path, id, err)
		}
		if p.Trigger = *trigger; start != int64(p.FromNS) {
			t.Errorf("%s: the window begins at %v, the records at %d", path, start, p.FromNS)
		}
		if _, again := parts[pid]; again {
			t.Errorf("%s: several sessions of pid %d", path, pid)
		}
		parts[pid] = p
	}
	if err := rows.Err(); err != nil || len(parts) == 0 {
		t.Fatalf("%s: %d processes: %v", path, len(parts), err)
	}
	return parts
}

// AddPart compares a trace of a flight recorder: every kernel that ended in its part is there, and nothing that
// was not executed. It returns how many kernels the log has in the part.
func (c *Comparison) AddPart(tr *Trace, p Part) (inside int) {
	c.t.Helper()
	c.Killed = true // the windows of queues stay open
	c.Add(tr)
	for key, records := range c.log.Queues {
		first, seen := firstOf(tr, key, p)
		if !seen && p.LimitedBy == tracedb.LimitStart { // it was never recorded, or not yet
			continue
		}
		for i, r := range records {
			if r.Packet < first || r.Kind != simlog.Kernel || int64(r.EndNS) < int64(p.FromNS)+toleranceNS || int64(r.EndNS) > p.UntilNS-toleranceNS {
				continue
			}
			if inside++; c.said[key][i] == unsaid {
				c.missing = append(c.missing, r)
			}
		}
	}
	return inside
}

// firstOf returns the first packet of a queue that the part must have: 0, unless the queue's window began in the part.
func firstOf(tr *Trace, key Key, p Part) (first uint64, seen bool) {
	for _, w := range tr.Windows { // in the order of time
		if tr.Queues[w.Queue].Key != key {
			continue
		}
		if w.OpenedNS > int64(p.FromNS) {
			return w.First, true
		}
		return 0, true
	}
	return 0, false
}
