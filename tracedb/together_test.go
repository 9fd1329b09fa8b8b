package tracedb

import "testing"

// TestOrderGPUs: the numbers do not depend on the order of sessions; an agent that was
// never defined keeps its own. The same bus address in another PCI domain is another device.
func TestOrderGPUs(t *testing.T) {
	db := create(t)
	for i, node := range []uint32{7, 3, 5, 3} {
		s := begin(t, db, uint32(10+i))
		must(t, s.Agent(Agent{ID: 1, DriverNode: node, BDF: 0x100 * node}), s.Queue(Queue{ID: 1, Agent: 1}))
	}
	s := begin(t, db, 14)
	must(t, s.Agent(Agent{ID: 1, DriverNode: 3, BDF: 0x300, PCIDomain: 1}), s.Queue(Queue{ID: 1, Agent: 1}))
	s = begin(t, db, 20)
	must(t, s.Queue(Queue{ID: 1, Agent: 9}), db.OrderGPUs(), db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT s.pid, a.gpu_id FROM rtl_agent a JOIN rtl_session s ON s.id = a.session_id ORDER BY s.pid",
		"10|3", "11|0", "12|2", "13|0", "14|1", "20|999")
}

func TestTogether(t *testing.T) {
	db := create(t)
	rank := 0
	must(t, db.BeginCommon(1000), db.EndCommon(3000), db.Targets([]Target{
		{PID: 10, StartTicks: 5, Command: "worker", Rank: &rank, Outcome: OutcomeRecorded},
		{PID: 11, Command: "sh", Outcome: OutcomeRefused, ExitCode: 3, Detail: "why"},
	}), db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT start_ns, end_ns FROM rtl_common", "1000|3000")
	expect(t, read, "SELECT pid, coalesce(start_ticks, '-'), command, coalesce(rank, '-'), outcome, exit_code, detail FROM rtl_target",
		"10|5|worker|0|recorded|0|", "11|-|sh|-|refused|3|why")
}
