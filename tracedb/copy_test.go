package tracedb

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

func TestCopies(t *testing.T) {
	db := create(t)
	for pid := range uint32(2) {
		s := begin(t, db, 42+pid)
		must(t,
			s.Agent(Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 0x300}),
			s.Agent(Agent{ID: 2, GPU: 1, Name: "gfx90a", BDF: 0x400}),
			s.Launch(Launch{ID: 1, Agent: 1, Symbol: "__amd_rocclr_copyBuffer.kd"}),
			s.Launch(Launch{ID: 2, Agent: 1, Symbol: "__amd_rocclr_fillBufferAligned.kd"}),
			s.Launch(Launch{ID: 3, Agent: 1, Symbol: "my__amd_rocclr_copy.kd"}),
			s.Copies([]Copy{
				{StartNS: 1000, EndNS: 1100, SubmitNS: 900, Bytes: 4096, To: 2, TID: 7, Direction: uint16(ring.HostToDevice)},
				{SubmitNS: 950, Bytes: 8, From: 1, To: 2, Direction: uint16(ring.DeviceToDevice), Reason: uint16(ring.ReasonRearmed)},
			}),
			s.End(End{Reason: "detached", Copies: &CopyCoverage{Begun: 3, Timed: 1, Untimed: 1, Unexplained: 1}}))
	}
	must(t, db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	if has, err := HasCopies(read); err != nil || !has {
		t.Errorf("%v, %v", has, err)
	}
	expect(t, read, `SELECT s.pid, t.tid, f.ordinal, o.ordinal, d.name, bytes, r.name, submit_ns, start_ns, duration_ns
		FROM rtl_copy c JOIN rtl_session s ON s.id = c.session_id JOIN rtl_direction d ON d.id = c.direction JOIN rtl_reason r ON r.id = c.reason_id
		LEFT JOIN rtl_thread t ON t.id = c.thread_id LEFT JOIN rtl_agent f ON f.id = c.from_agent_id
		LEFT JOIN rtl_agent o ON o.id = c.to_agent_id ORDER BY c.id`,
		"42|7|NULL|1|host to device|4096|none|900|1000|100",
		"42|NULL|0|1|device to device|8|rearmed|950|NULL|NULL",
		"43|7|NULL|1|host to device|4096|none|900|1000|100",
		"43|NULL|0|1|device to device|8|rearmed|950|NULL|NULL")
	expect(t, read, "SELECT * FROM rtl_copy_coverage", "1|3|1|1|1", "2|3|1|1|1")
	expect(t, read, "SELECT s.string, what FROM rtl_blit JOIN rtl_launch l ON l.id = launch_id JOIN rocpd_string s ON s.id = l.symbol_id WHERE l.session_id = 1 ORDER BY 1",
		"__amd_rocclr_copyBuffer.kd|copy", "__amd_rocclr_fillBufferAligned.kd|fill")
}

// A trace of an older version has no such tables.
func TestTraceWithoutCopies(t *testing.T) {
	db := create(t)
	must(t, db.exec("DROP TABLE rtl_copy"), db.exec("DROP TABLE rtl_copy_coverage"), db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	if has, err := HasCopies(read); err != nil || has {
		t.Errorf("%v, %v", has, err)
	}
}
