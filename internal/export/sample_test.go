package export

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// wildName has what each format must escape, and is no UTF-8.
const wildName = "=evil\"<,'\\\n\t\x1b[2J\u202e\U0001f600\xff;"

func create(t testing.TB) (*tracedb.DB, string) {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "trace.db"), 1)
	must(t, err)
	db, err := tracedb.Create(place)
	must(t, err)
	return db, place.Path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const day = 86400_000_000_000 // ns

func wildThread(tid uint32) string { return map[uint32]string{11: "worker " + wildName}[tid] }

// sample is a trace of two sessions of one process, and of another with its pid:
// kernels that overlap, submits and threads that are not known, losses.
func sample(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	for i, ticks := range []uint64{7, 7, 8} {
		s, err := db.Begin(tracedb.SessionInfo{PID: 41220, StartTicks: ticks, Command: "server", Host: "node", Generation: 1, ThreadName: wildThread})
		must(t, err)
		record(t, s, uint64(200*day+i*1_000_000))
	}
	must(t, db.Close())
	return path
}

// record writes a session from a time on: nine of eleven dispatches timed.
func record(t testing.TB, s *tracedb.Session, at uint64) {
	t.Helper()
	var batch []tracedb.Dispatch
	for n := range uint64(8) { // each starts before the last one ends, and ends later or earlier
		batch = append(batch, tracedb.Dispatch{
			Queue: uint32(n%2) + 1, Launch: uint32(n%3) + 1, TID: uint32(11 + n%2), Index: n,
			StartNS: at + 1001 + 100*n, EndNS: at + 1001 + 100*n + 150 + 100*(n%4), SubmitNS: at + 900 + 7*n,
		})
	}
	batch = append(batch, tracedb.Dispatch{Queue: 1, Launch: 2, Index: 9, StartNS: at + 3000, EndNS: at + 3000}) // no submit, no thread, no length
	must(t, errors.Join(
		s.Agent(tracedb.Agent{ID: 1, Name: "gfx90a", Product: "Instinct \"MI\"", DriverNode: 1, ComputeUnits: 104}),
		s.Queue(tracedb.Queue{ID: 1, Agent: 1, HSAID: 3, SizePackets: 64}),
		s.Queue(tracedb.Queue{ID: 2, Agent: 1, HSAID: 4, SizePackets: 64}),
		s.Queue(tracedb.Queue{ID: 3, Agent: 1, HSAID: 5, SizePackets: 64}),
		s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "_Z4gemmPf.kd", Grid: [3]uint32{256, 2, 1}, Workgroup: [3]uint16{64, 1, 1}, GroupSegmentBytes: 1024}),
		s.Launch(tracedb.Launch{ID: 2, Agent: 1, Symbol: wildName}),
		s.Launch(tracedb.Launch{ID: 3, Agent: 1, Symbol: "_Z4gemmPf.kd", Grid: [3]uint32{512, 2, 1}, Workgroup: [3]uint16{64, 1, 1}}),
		s.Dispatches(batch),
		s.Untimed(tracedb.Untimed{Queue: 1, Reason: 2, Index: 10, Packets: 2, SubmitNS: at + 3100}),
		s.Window(tracedb.Window{Queue: 1, OpenNS: at + 800, Closed: true, CloseNS: at + 3500, EndIndex: 11, Dispatches: 7}),
		s.Window(tracedb.Window{Queue: 2, OpenNS: at + 800, Closed: true, CloseNS: at + 1500, EndIndex: 2, Dispatches: 2}),
		s.Window(tracedb.Window{Queue: 2, OpenNS: at + 1600}),
		s.Pause(tracedb.Pause{TID: 11, StartNS: at + 700, DurationNS: 41, Purpose: "attach"}),
		s.Lost(tracedb.Loss{Cause: "test", Records: 3, FromNS: at + 3200, UntilNS: at + 3300}),
		s.End(tracedb.End{Reason: "detached", ArmedNS: at + 750, DetachedNS: at + 4000, Coverage: []tracedb.Coverage{
			{Queue: 1, Windows: 1, Dispatches: 7, Timed: 5, Untimed: 2},
			{Queue: 2, Windows: 2, WindowsOpen: 1, Dispatches: 4, Timed: 4},
		}})))
}

// change runs statements on a trace as its maker could.
func change(t testing.TB, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	defer db.Close()
	_, err = db.Exec(statements)
	must(t, err)
}

// exported writes a trace in a format and returns the bytes.
func exported(t testing.TB, format, path string) ([]byte, *Result) {
	t.Helper()
	f, ok := FormatNamed(format)
	if !ok {
		t.Fatalf("no format %q", format)
	}
	tr, err := openTrace(t.Context(), path)
	must(t, err)
	defer tr.Close()
	var b bytes.Buffer
	r, err := f.stream(t.Context(), tr, &b, IsCompressed(f.Suffix))
	must(t, err)
	if r.Bytes != int64(b.Len()) {
		t.Errorf("%d bytes said, %d written", r.Bytes, b.Len())
	}
	return b.Bytes(), r
}

// A fact is a dispatch as the trace's own tables have it.
type fact struct {
	id, session, pid, gpu, queue, tid, start, end, packet int64
	submit                                                sql.NullInt64
	name, symbol                                          string
	gridX, workgroupX, group                              int64
}

// facts reads them, in a query of its own.
func facts(t testing.TB, path string) map[int64]fact {
	t.Helper()
	db, err := tracedb.Open(path)
	must(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT d.id, s.id, s.pid, a.gpu_id, q.id, coalesce(t.tid, 0), d.start_ns, d.start_ns + d.duration_ns,
			d.packet_index, d.start_ns - d.queued_ns, n.string, y.string, coalesce(l.grid_x, 0), coalesce(l.workgroup_x, 0), coalesce(l.group_segment_bytes, 0)
		FROM rtl_dispatch d JOIN rtl_queue q ON q.id = d.queue_id JOIN rtl_agent a ON a.id = q.agent_id
		JOIN rtl_session s ON s.id = q.session_id JOIN rtl_launch l ON l.id = d.launch_id
		JOIN rocpd_string n ON n.id = l.name_id JOIN rocpd_string y ON y.id = l.symbol_id LEFT JOIN rtl_thread t ON t.id = d.thread_id`)
	must(t, err)
	defer rows.Close()
	all := map[int64]fact{}
	for rows.Next() {
		var f fact
		must(t, rows.Scan(&f.id, &f.session, &f.pid, &f.gpu, &f.queue, &f.tid, &f.start, &f.end, &f.packet, &f.submit,
			&f.name, &f.symbol, &f.gridX, &f.workgroupX, &f.group))
		all[f.id] = f
	}
	must(t, rows.Err())
	if len(all) == 0 {
		t.Fatal("an empty trace compares with everything")
	}
	return all
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}
