package allocations

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// made returns an allocation of a memory, freed a release; both take 10 ns.
func made(at, address, bytes uint64, agent uint32) Allocation {
	return Allocation{StartNS: at, EndNS: at + 10, Address: address, SizeBytes: bytes, Pool: 1, Agent: agent, TID: 7, Flags: FlagAgentKnown}
}

func freed(at, address uint64) Allocation {
	return Allocation{StartNS: at, EndNS: at + 10, Address: address, TID: 8, Operation: uint16(PoolFree)}
}

// sample is what one process does: an address that repeats, an older block, a handle with a
// block's address, a release that is missing, failures.
func sample() []Allocation {
	handle, closed, region := made(1300, 0x1000, 64, 2), freed(1400, 0x1000), made(1350, 0x9000, 7, 0)
	handle.Operation, closed.Operation, region.Operation = uint16(Virtual), uint16(VirtualFree), uint16(Region)
	failed := Allocation{StartNS: 1500, EndNS: 1501, SizeBytes: 1 << 60, Pool: 1, Status: 0x1008, Agent: 1, Flags: FlagAgentKnown}
	unknown := made(1600, 0xa000, 5, 0)
	unknown.Flags = 0
	nothing := freed(1610, 0)
	return []Allocation{
		freed(1095, 0x1000), made(1000, 0x1000, 100, 1), // the records of two threads are not in the order of time
		made(1092, 0x1000, 200, 1), // has begun, and waits for the release
		freed(1200, 0x1000),
		freed(1250, 0x7000), // of an older block
		handle, region, closed, failed, unknown, nothing,
		made(1700, 0x2000, 30, 0), made(1800, 0x2000, 40, 0), // its release is missing
	}
}

// write writes the sample of two processes.
func write(t *testing.T) string {
	t.Helper()
	db, path := create(t)
	for pid := range uint32(2) {
		s := begin(t, db, 42+pid)
		must(t,
			s.Agent(tracedb.Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 0x300}),
			s.Agent(tracedb.Agent{ID: 2, GPU: 1, Name: "gfx90a", BDF: 0x400}),
			s.Kind(2, func(w tracedb.KindWriter) error { return Store(w, sample()) }),
			s.End(tracedb.End{Reason: "detached"}))
	}
	must(t, db.Close())
	return path
}

func TestViews(t *testing.T) {
	read, err := tracedb.Open(write(t))
	must(t, err)
	defer read.Close()
	expect(t, read, `SELECT operation, bytes, memory, gpu, address, thread, start_ns, end_ns, freed_ns, lifetime_ns, allocation_id, failed
		FROM memory_allocation WHERE pid = 42 ORDER BY id`,
		"pool free|100|GPU 0|0|0x1000|8|1095|1105|NULL|NULL|2|NULL",
		"pool allocate|100|GPU 0|0|0x1000|7|1000|1010|1095|85|NULL|NULL",
		"pool allocate|200|GPU 0|0|0x1000|7|1092|1102|1200|98|NULL|NULL",
		"pool free|200|GPU 0|0|0x1000|8|1200|1210|NULL|NULL|3|NULL",
		"pool free|NULL|NULL|NULL|0x7000|8|1250|1260|NULL|NULL|NULL|NULL",
		"virtual memory create|64|GPU 1|1|0x1000|7|1300|1310|1400|90|NULL|NULL",
		"region allocate|7|host|NULL|0x9000|7|1350|1360|NULL|NULL|NULL|NULL",
		"virtual memory release|64|GPU 1|1|0x1000|8|1400|1410|NULL|NULL|6|NULL",
		"pool allocate|1152921504606846976|GPU 0|0|0x0|NULL|1500|1501|NULL|NULL|NULL|4104",
		"pool allocate|5|NULL|NULL|0xa000|7|1600|1610|NULL|NULL|NULL|NULL",
		"pool free|NULL|NULL|NULL|0x0|8|1610|1620|NULL|NULL|NULL|NULL",
		"pool allocate|30|host|NULL|0x2000|7|1700|1710|NULL|NULL|NULL|NULL",
		"pool allocate|40|host|NULL|0x2000|7|1800|1810|NULL|NULL|NULL|NULL")
	expect(t, read, "SELECT time_ns, change_bytes, live_bytes FROM memory_live WHERE gpu = 0", // of both processes
		"1010|200|200", "1095|-200|0", "1102|400|400", "1200|-400|0")
	expect(t, read, "SELECT time_ns, change_bytes, live_bytes FROM memory_live WHERE memory = 'host'",
		"1360|14|14", "1710|60|74", "1810|20|94")
}

// A process has one memory in all of its sessions.
func TestSessionsOfOneProcess(t *testing.T) {
	db, path := create(t)
	for _, batch := range [][]Allocation{{made(1000, 0x1000, 100, 0)}, {freed(5000, 0x1000)}} {
		s := begin(t, db, 42)
		must(t, s.Kind(1, func(w tracedb.KindWriter) error { return Store(w, batch) }), s.End(tracedb.End{Reason: "detached"}))
	}
	must(t, db.Close())
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT bytes, freed_ns FROM memory_allocation ORDER BY id", "100|5000", "100|NULL")
}

// TestHostileViews: whatever numbers a file has, a query of the views comes to its end.
func TestHostileViews(t *testing.T) {
	db, path := create(t)
	must(t, begin(t, db, 42).End(tracedb.End{}), db.Close())
	change(t, path, `INSERT INTO rtl_allocation(id, session_id, thread_id, operation, agent_id, address, bytes, pool, status, start_ns, duration_ns) VALUES
		(1, 1, 9, 0, 9, 5, 9223372036854775807, 1, 0, 9223372036854775807, 9223372036854775807),
		(2, 1, 9, 1, 9, 6, 9223372036854775807, 1, 0, 9223372036854775807, 9223372036854775807),
		(3, 1, 9, 3, 9, 5, -9223372036854775808, 1, 0, -9223372036854775808, 9223372036854775807),
		(4, 'x', x'01', 1e300, NULL, 'y', 0, 'z', 'z', x'00', 'a'), (5, 1, 1, 2, 'q', 'y', x'02', 'z', 0, 'x', 'a')`)
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*), count(start_s) FROM memory_allocation", "5|5")
	expect(t, read, "SELECT count(*) > 0 FROM memory_live", "1")
}

// TestOlderTrace: a trace of an older version has no such tables.
func TestOlderTrace(t *testing.T) {
	db, path := create(t)
	must(t, db.Close())
	change(t, path, "DROP VIEW memory_live; DROP VIEW memory_allocation; DROP VIEW rtl_allocation_chain; DROP TABLE rtl_allocation")
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer tr.Close()
	if is, err := Kind.IsIn(tr); err != nil || is {
		t.Errorf("%v, %v", is, err)
	}
}

// change runs SQL in a file as its owner can.
func change(t *testing.T, path, statements string) {
	t.Helper()
	raw, err := sql.Open("sqlite3", path)
	must(t, err)
	_, err = raw.Exec(statements)
	must(t, err, raw.Close())
}

func expect(t *testing.T, db *sql.DB, query string, want ...string) {
	t.Helper()
	found, err := db.Query(query)
	must(t, err)
	defer found.Close()
	columns, err := found.Columns()
	must(t, err)
	var got []string
	for found.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		must(t, found.Scan(into...))
		row := make([]string, len(values))
		for i, v := range values {
			if row[i] = "NULL"; v.Valid {
				row[i] = v.String
			}
		}
		got = append(got, strings.Join(row, "|"))
	}
	must(t, found.Err())
	if !slices.Equal(got, want) {
		t.Errorf("%s\n got %q\nwant %q", query, got, want)
	}
}
