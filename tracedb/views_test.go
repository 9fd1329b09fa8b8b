package tracedb

import "testing"

// TestViews: the queries that users type first.
func TestViews(t *testing.T) {
	read := writtenBy(t, `UPDATE rtl_session SET window_start_ns = 800, window_end_ns = 1600`)
	expect(t, read, "SELECT name, duration_ns FROM kernel ORDER BY 2 DESC, start_ns LIMIT 2", "gemm(float*)|150", "copy_kernel|150")
	expect(t, read, `SELECT id, name, gpu, pid, command, queue, thread, thread_name, submit_ns, start_ns, end_ns, duration_ns,
			CAST(round(start_s * 1e9) AS INTEGER) FROM kernel ORDER BY id`,
		"1|gemm(float*)|0|42|server|1|11|loader|900|1000|1150|150|250",
		"2|copy_kernel|0|42|server|1|12|NULL|950|1050|1200|150|300",
		"3|gemm(float*)|0|42|server|1|NULL|NULL|NULL|1400|1500|100|650")
	expect(t, read, "SELECT gpu, start_ns, end_ns, duration_ns, previous_kernel, next_kernel, pid, command, thread, thread_name FROM gap",
		"0|800|1000|200|NULL|gemm(float*)|42|server|11|loader",
		"0|1200|1400|200|copy_kernel|gemm(float*)|42|server|NULL|NULL",
		"0|1500|1600|100|gemm(float*)|NULL|NULL|NULL|NULL|NULL")
}

// TestGaps: overlapping and nested kernels, several sessions and GPUs, a common window,
// and no kernels.
func TestGaps(t *testing.T) {
	db := create(t)
	for i, c := range []struct {
		bdf        uint32
		armed, end uint64
		kernels    [][2]uint64
	}{
		{0x300, 100, 1000, [][2]uint64{{200, 700}, {300, 400}, {600, 650}, {900, 950}}},
		{0x300, 150, 900, [][2]uint64{{750, 800}}}, // on the same GPU
		{0x400, 150, 900, nil},
		{0x500, 5000, 6000, [][2]uint64{{4000, 5100}, {5900, 7000}}}, // later, alone
	} {
		s, err := db.Begin(SessionInfo{PID: uint32(10 + i), ArmedNS: c.armed})
		must(t, err, s.Agent(Agent{ID: 1, BDF: c.bdf}), s.Queue(Queue{ID: 1, Agent: 1}), s.Launch(Launch{ID: 1, Symbol: "k.kd"}))
		for _, k := range c.kernels {
			must(t, s.Dispatches([]Dispatch{{Queue: 1, Launch: 1, StartNS: k[0], EndNS: k[1]}}))
		}
		must(t, s.End(End{WindowEndNS: c.end}))
	}
	must(t, db.BeginCommon(150), db.EndCommon(850), db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT gpu, start_ns, end_ns, duration_ns, previous_kernel, next_kernel, pid FROM gap ORDER BY 1, 2",
		"0|150|200|50|NULL|k|10", "0|700|750|50|k|k|11", "0|800|850|50|k|k|10",
		"1|150|850|700|NULL|NULL|NULL",
		"2|5100|5900|800|k|k|13")
}

// TestHostileViews: a query ends, whatever numbers a file has.
func TestHostileViews(t *testing.T) {
	const most, least = "9223372036854775807", "-9223372036854775808"
	for _, change := range []string{
		"UPDATE rtl_execution SET start_ns = " + most + ", duration_ns = " + most,
		"UPDATE rtl_execution SET start_ns = " + least + ", duration_ns = " + least + ", queued_ns = " + most,
		"UPDATE rtl_session SET window_start_ns = " + least + ", window_end_ns = " + most + ", armed_ns = " + least,
		"UPDATE rtl_session SET window_start_ns = 'x', window_end_ns = x'00', armed_ns = 'y'",
		"UPDATE rtl_execution SET start_ns = 'x', duration_ns = x'01', queued_ns = 1e300",
		"DELETE FROM rtl_agent; DELETE FROM rocpd_string; DELETE FROM rtl_session",
		"INSERT INTO rtl_common VALUES(" + least + ", " + most + "), (1, 'x')",
	} {
		read := writtenBy(t, "UPDATE rtl_session SET window_start_ns = 800, window_end_ns = 1600; "+change)
		for _, view := range []string{"kernel", "gap", "rtl_declared"} {
			rows(t, read, "SELECT * FROM "+view+" ORDER BY 1")
			rows(t, read, "SELECT count(*) FROM "+view)
		}
	}
}

// TestOlderFormat: a file without these views is read as if it had them.
func TestOlderFormat(t *testing.T) {
	read := writtenBy(t, `DROP VIEW kernel; DROP VIEW gap; DROP VIEW rtl_declared; DROP TABLE rtl_target;
		CREATE TABLE rtl_target(id INTEGER PRIMARY KEY, fate TEXT, text TEXT); PRAGMA user_version = 1`)
	expect(t, read, "SELECT count(*) FROM kernel", "3")
	outcome, detail, err := TargetColumns(read)
	if outcome != "fate" || detail != "text" || err != nil {
		t.Errorf("%q, %q, %v", outcome, detail, err)
	}
	has, err := HasColumn(read, "rtl_session", "window_end_ns")
	if !has || err != nil {
		t.Errorf("%v, %v", has, err)
	}
}
