package copies

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func TestStore(t *testing.T) {
	db, path := create(t)
	for pid := range uint32(2) {
		s := begin(t, db, 42+pid)
		must(t,
			s.Agent(tracedb.Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 0x300}),
			s.Agent(tracedb.Agent{ID: 2, GPU: 1, Name: "gfx90a", BDF: 0x400}),
			s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "__amd_rocclr_copyBuffer.kd"}),
			s.Launch(tracedb.Launch{ID: 2, Agent: 1, Symbol: "__amd_rocclr_fillBufferAligned.kd"}),
			s.Launch(tracedb.Launch{ID: 3, Agent: 1, Symbol: "my__amd_rocclr_copy.kd"}),
			s.Kind(2, func(w tracedb.KindWriter) error {
				return Store(w, []Copy{
					{StartNS: 1000, EndNS: 1100, SubmitNS: 900, Bytes: 4096, To: 2, TID: 7, Direction: uint16(HostToDevice)},
					{SubmitNS: 950, Bytes: 8, From: 1, To: 2, Direction: uint16(DeviceToDevice), Reason: uint16(ring.ReasonRearmed)},
				})
			}),
			s.End(tracedb.End{Reason: "detached"}))
	}
	must(t, db.Close())
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, `SELECT s.pid, t.tid, f.ordinal, o.ordinal, d.name, bytes, r.name, submit_ns, start_ns, duration_ns
		FROM rtl_copy c JOIN rtl_session s ON s.id = c.session_id JOIN rtl_direction d ON d.id = c.direction JOIN rtl_reason r ON r.id = c.reason_id
		LEFT JOIN rtl_thread t ON t.id = c.thread_id LEFT JOIN rtl_agent f ON f.id = c.from_agent_id
		LEFT JOIN rtl_agent o ON o.id = c.to_agent_id ORDER BY c.id`,
		"42|7|NULL|1|host to device|4096|none|900|1000|100",
		"42|NULL|0|1|device to device|8|rearmed|950|NULL|NULL",
		"43|7|NULL|1|host to device|4096|none|900|1000|100",
		"43|NULL|0|1|device to device|8|rearmed|950|NULL|NULL")
	expect(t, read, "SELECT direction, bytes, from_gpu, to_gpu, pid, thread, end_ns, untimed FROM copy WHERE pid = 42",
		"host to device|4096|NULL|1|42|7|1100|NULL",
		"device to device|8|0|1|42|NULL|NULL|the signal was re-armed before it fired")
	expect(t, read, "SELECT s.string, what FROM rtl_blit JOIN rtl_launch l ON l.id = launch_id JOIN rocpd_string s ON s.id = l.symbol_id WHERE l.session_id = 1 ORDER BY 1",
		"__amd_rocclr_copyBuffer.kd|copy", "__amd_rocclr_fillBufferAligned.kd|fill")
}

// TestHostileView: whatever numbers a file has, a query of the view comes to its end.
func TestHostileView(t *testing.T) {
	db, path := create(t)
	must(t, begin(t, db, 42).End(tracedb.End{}), db.Close())
	change(t, path, `INSERT INTO rtl_copy VALUES(1, 1, 9, 9, 9, 99, 9223372036854775807, 99,
		-9223372036854775808, 9223372036854775807, 9223372036854775807), (2, 'x', x'01', 1e300, NULL, -1, 'y', 0, 'z', 'z', x'00')`)
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*), count(start_s) FROM copy", "2|2")
}

// TestOlderTrace: a trace of an older version has no such tables.
func TestOlderTrace(t *testing.T) {
	db, path := create(t)
	must(t, db.Close())
	change(t, path, "DROP VIEW copy; DROP TABLE rtl_copy")
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
			values[i].String, into[i] = "", &values[i]
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
