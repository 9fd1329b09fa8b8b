package truth

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// findings is a Reporter that keeps all reports.
type findings []string

func (*findings) Helper()             {}
func (*findings) Logf(string, ...any) {}
func (f *findings) Errorf(format string, args ...any) {
	*f = append(*f, fmt.Sprintf(format, args...))
}

// damage is a change to a copy of a trace; the comparison must report its kind.
type damage struct {
	what string
	kind string // "": none, it must be let through
	sql  string
}

// unfold makes a table of the view, so that a damage can change it; fold writes the table back.
const (
	unfold = `
	CREATE TEMP TABLE unfolded AS SELECT * FROM rtl_dispatch;
	DROP VIEW rtl_dispatch;
	CREATE TABLE rtl_dispatch(id INTEGER PRIMARY KEY, queue_id, launch_id, thread_id, packet_index, start_ns,
		duration_ns, queued_ns, flags);
	INSERT INTO rtl_dispatch SELECT * FROM unfolded;`
	fold = `
	DELETE FROM rtl_execution;
	DELETE FROM rtl_context;
	INSERT INTO rtl_context(queue_id, launch_id, thread_id, flags)
		SELECT DISTINCT queue_id, launch_id, thread_id, flags FROM rtl_dispatch;
	INSERT INTO rtl_execution SELECT d.id, c.id, d.packet_index, d.start_ns, d.duration_ns, d.queued_ns
		FROM rtl_dispatch d JOIN rtl_context c ON c.queue_id = d.queue_id AND c.launch_id = d.launch_id
		AND c.thread_id IS d.thread_id AND c.flags = d.flags;
	DROP TABLE rtl_dispatch;`
)

// victims are chosen in each copy: two dispatches of one queue by different threads, and others
// in certain positions to each other.
const victims = `
	CREATE INDEX by_packet ON rtl_dispatch(queue_id, packet_index);
	CREATE TEMP TABLE busy AS SELECT queue_id AS id FROM rtl_dispatch GROUP BY queue_id
		ORDER BY count(DISTINCT thread_id) > 1 DESC, count(*) DESC LIMIT 1;
	CREATE TEMP TABLE a AS SELECT d.* FROM rtl_dispatch d JOIN busy ON busy.id = d.queue_id
		WHERE d.queued_ns IS NOT NULL ORDER BY d.packet_index LIMIT 1 OFFSET 50;
	CREATE TEMP TABLE b AS SELECT d.* FROM rtl_dispatch d JOIN a ON a.queue_id = d.queue_id
		WHERE d.thread_id <> a.thread_id AND d.launch_id <> a.launch_id AND d.packet_index > a.packet_index
		ORDER BY d.packet_index LIMIT 1;
	CREATE TEMP TABLE twin AS SELECT d.id AS id, o.queue_id AS queue_id FROM rtl_dispatch d JOIN rtl_dispatch o
		ON o.packet_index = d.packet_index WHERE o.queue_id <> d.queue_id LIMIT 1;
	CREATE TEMP TABLE brief AS SELECT q.id FROM rtl_queue q JOIN executed e ON e.hsa_id = q.hsa_id JOIN a ON e.last < a.packet_index LIMIT 1;
	CREATE TEMP TABLE u AS SELECT u.* FROM rtl_untimed u JOIN rtl_reason r ON r.id = u.reason_id
		WHERE r.name <> 'after-detach' LIMIT 1;
	CREATE TEMP TABLE before AS SELECT u.id FROM rtl_untimed u JOIN rtl_reason r ON r.id = u.reason_id
		JOIN rtl_dispatch d ON d.queue_id = u.queue_id AND d.packet_index = u.packet_index + u.packets
		WHERE r.name <> 'after-detach' LIMIT 1;
	CREATE TEMP TABLE first AS SELECT w.id FROM rtl_window w JOIN rtl_dispatch d
		ON d.queue_id = w.queue_id AND d.packet_index = w.first_index LIMIT 1;
	CREATE TEMP TABLE last AS SELECT w.id FROM rtl_window w JOIN rtl_dispatch d
		ON d.queue_id = w.queue_id AND d.packet_index = w.end_index - 1 LIMIT 1;`

// executedIn makes a table of the last packet of each queue: one that the trace knows only up to the detach may go on.
func executedIn(log *harness.Log) string {
	var b strings.Builder
	b.WriteString("CREATE TEMP TABLE executed(hsa_id, last);")
	for key, records := range log.Queues {
		fmt.Fprintf(&b, "INSERT INTO executed VALUES(%d, %d);", key.ID, records[len(records)-1].Packet)
	}
	return b.String()
}

// settle makes the accounts agree with the damaged rows, so that only the comparison with the
// truth can find the damage.
const settle = `
	DELETE FROM rtl_coverage WHERE queue_id NOT IN
		(SELECT queue_id FROM rtl_window UNION SELECT queue_id FROM rtl_dispatch UNION SELECT queue_id FROM rtl_untimed);
	UPDATE rtl_coverage SET
		timed = (SELECT count(*) FROM rtl_dispatch d WHERE d.queue_id = rtl_coverage.queue_id),
		untimed = (SELECT coalesce(sum(u.packets), 0) FROM rtl_untimed u JOIN rtl_reason r ON r.id = u.reason_id
			WHERE u.queue_id = rtl_coverage.queue_id AND r.name <> 'after-detach');
	UPDATE rtl_coverage SET (windows, windows_open, dispatches, others, after_detach, raw_before) =
		(SELECT count(*), count(*) - count(end_index), coalesce(sum(dispatches), 0), coalesce(sum(others), 0),
			coalesce(sum(after_detach), 0), coalesce(max(raw_before), 0)
		FROM rtl_window w WHERE w.queue_id = rtl_coverage.queue_id);
	UPDATE rtl_coverage SET unexplained = CASE WHEN windows_open THEN 0 ELSE dispatches - timed - untimed END;`

const (
	isA     = ` WHERE id = (SELECT id FROM a)`
	isBoth  = ` WHERE id IN (SELECT id FROM a UNION SELECT id FROM b)`
	isQueue = ` WHERE queue_id = (SELECT id FROM busy)`
)

// swap exchanges a column of the two victims.
func swap(column string) string {
	return fmt.Sprintf(`UPDATE rtl_dispatch SET %[1]s = (SELECT a.%[1]s + b.%[1]s - rtl_dispatch.%[1]s FROM a, b)`, column) + isBoth
}

var damages = []damage{
	{"none", "", `SELECT 1`},
	{"the order of two rows, which says nothing", "", `
		UPDATE rtl_dispatch SET id = -1` + isA + `;
		UPDATE rtl_dispatch SET id = (SELECT id FROM a) WHERE id = (SELECT id FROM b);
		UPDATE rtl_dispatch SET id = (SELECT id FROM b) WHERE id = -1`},

	{"a dispatch is missing", "missing", `DELETE FROM rtl_dispatch` + isA},
	{"a dispatch is missing, and its window counts it out", "count", `DELETE FROM rtl_dispatch` + isA + `;
		UPDATE rtl_window SET dispatches = dispatches - 1, others = others + 1` + isQueue},
	{"a dispatch is there twice", "duplicate", `
		UPDATE a SET id = NULL; INSERT INTO rtl_dispatch SELECT * FROM a`},
	{"a dispatch that never ran", "unknown", `
		UPDATE a SET id = NULL, packet_index = packet_index + 1000000; INSERT INTO rtl_dispatch SELECT * FROM a`},
	{"it starts 60 ns late", "times", `UPDATE rtl_dispatch SET start_ns = start_ns + 60, duration_ns = duration_ns - 60` + isA},
	{"it starts 60 ns early", "times", `UPDATE rtl_dispatch SET start_ns = start_ns - 60, duration_ns = duration_ns + 60` + isA},
	{"it ends 60 ns late", "times", `UPDATE rtl_dispatch SET duration_ns = duration_ns + 60` + isA},
	{"it ends 60 ns early", "times", `UPDATE rtl_dispatch SET duration_ns = duration_ns - 60` + isA},
	{"it is 60 ns late", "times", `UPDATE rtl_dispatch SET start_ns = start_ns + 60` + isA},
	{"all are 60 ns early", "times", `UPDATE rtl_dispatch SET start_ns = start_ns - 60`},
	{"two have each other's times", "times", swap("start_ns") + `;` + swap("duration_ns")},
	{"two have each other's place in the queue", "times", swap("packet_index")},
	{"two have each other's kernel", "kernel", swap("launch_id")},
	{"two kernels have each other's symbol", "kernel", `UPDATE rtl_launch SET symbol_id = (SELECT x.symbol_id + y.symbol_id - rtl_launch.symbol_id
		FROM a, b JOIN rtl_launch x ON x.id = a.launch_id JOIN rtl_launch y ON y.id = b.launch_id)
		WHERE id IN (SELECT launch_id FROM a UNION SELECT launch_id FROM b)`},
	{"two kernels have each other's name", "kernel", `UPDATE rtl_launch SET name_id = (SELECT x.name_id + y.name_id - rtl_launch.name_id
		FROM a, b JOIN rtl_launch x ON x.id = a.launch_id JOIN rtl_launch y ON y.id = b.launch_id)
		WHERE id IN (SELECT launch_id FROM a UNION SELECT launch_id FROM b)`},
	{"a kernel has another object", "kernel", `UPDATE rtl_launch SET kernel_object = kernel_object + 64 WHERE id = (SELECT launch_id FROM a)`},
	{"a kernel has another grid", "grid", `UPDATE rtl_launch SET grid_y = grid_y + 1 WHERE id = (SELECT launch_id FROM a)`},
	{"on a queue that had no such packet", "unknown", `UPDATE rtl_dispatch SET queue_id = (SELECT id FROM brief)` + isA},
	{"on a queue that had such a packet, too", "duplicate", `UPDATE rtl_dispatch SET queue_id = (SELECT queue_id FROM twin)
		WHERE id = (SELECT id FROM twin)`},
	{"with the packet index of another", "duplicate", `UPDATE rtl_dispatch SET packet_index = (SELECT packet_index FROM b)` + isA},
	{"with a packet index that never was", "unknown", `UPDATE rtl_dispatch SET packet_index = packet_index + 1000000` + isA},
	{"two have each other's thread", "tid", swap("thread_id")},
	{"its thread is not known", "tid", `UPDATE rtl_dispatch SET thread_id = NULL` + isA},
	{"submitted by a thread that never was", "tid", `UPDATE rtl_thread SET tid = tid + 4000000`},
	{"submitted after its start", "submit", `UPDATE rtl_dispatch SET queued_ns = -5` + isA},
	{"submitted before its window", "submit", `UPDATE rtl_dispatch SET queued_ns = queued_ns + 10000000000` + isA},
	{"its submit is not known, and nothing says so", "submit", `UPDATE rtl_dispatch SET queued_ns = NULL` + isA},

	{"an untimed packet is missing", "missing", `DELETE FROM rtl_untimed WHERE id = (SELECT id FROM u)`},
	{"an untimed packet is there twice", "duplicate", `UPDATE u SET id = NULL; INSERT INTO rtl_untimed SELECT * FROM u`},
	{"an untimed run is a packet too long", "duplicate", `UPDATE rtl_untimed SET packets = packets + 1 WHERE id = (SELECT id FROM before)`},
	{"an untimed run is far too long", "unknown", `UPDATE rtl_untimed SET packets = packets + 1000000 WHERE id = (SELECT id FROM u)`},
	{"an untimed packet that never was", "unknown", `UPDATE rtl_untimed SET packet_index = packet_index + 1000000 WHERE id = (SELECT id FROM u)`},
	{"an untimed packet is said to be after the detach", "count", `UPDATE rtl_untimed SET reason_id =
		(SELECT id FROM rtl_reason WHERE name = 'after-detach') WHERE id = (SELECT id FROM u)`},
	{"an untimed packet was submitted before its window", "submit", `UPDATE rtl_untimed SET submit_ns = 1 WHERE id = (SELECT id FROM u)`},

	{"a window closes a packet early", "window", `UPDATE rtl_window SET end_index = end_index - 1, dispatches = dispatches - 1
		WHERE id = (SELECT id FROM last)`},
	{"a window closes a packet late", "missing", `UPDATE rtl_window SET end_index = end_index + 1, dispatches = dispatches + 1
		WHERE id = (SELECT w.id FROM rtl_window w JOIN busy ON busy.id = w.queue_id)`},
	{"a window opens a packet late", "window", `UPDATE rtl_window SET first_index = first_index + 1, dispatches = dispatches - 1
		WHERE id = (SELECT id FROM first)`},
	{"a window opens a packet early", "missing", `UPDATE rtl_window SET first_index = first_index - 1, dispatches = dispatches + 1` + isQueue},
	{"a window closes before a submit in it", "submit", `UPDATE rtl_window SET closed_ns = opened_ns + 1` + isQueue},
	{"a window opens after a submit in it", "submit", `UPDATE rtl_window SET opened_ns = closed_ns - 1` + isQueue},
	{"a window closes before it opens", "session", `UPDATE rtl_window SET closed_ns = opened_ns - 1` + isQueue},
	{"a window closes after the detach", "session", `UPDATE rtl_window SET closed_ns = closed_ns + 10000000000` + isQueue},
	{"a window was never closed", "open", `UPDATE rtl_window SET closed_ns = NULL, end_index = NULL, dispatches = NULL,
		others = NULL, after_detach = NULL` + isQueue},
	{"a window is there twice", "overlap", `CREATE TEMP TABLE w AS SELECT * FROM rtl_window` + isQueue + `;
		UPDATE w SET id = NULL; INSERT INTO rtl_window SELECT * FROM w`},
	{"a window is missing", "window", `DELETE FROM rtl_window` + isQueue},
	{"a window counts a barrier for a dispatch", "count", `UPDATE rtl_window SET dispatches = dispatches + 1, others = others - 1` + isQueue},
	{"a window counts a slot after the detach", "count", `UPDATE rtl_window SET after_detach = after_detach + 1` + isQueue},

	{"a queue has another's id", "unknown", `UPDATE rtl_queue SET hsa_id = hsa_id + 100000 WHERE id = (SELECT id FROM busy)`},
	{"a queue is on another GPU", "agent", `UPDATE rtl_queue SET agent_id = (SELECT id FROM rtl_agent o WHERE o.id <> rtl_queue.agent_id)
		WHERE id = (SELECT id FROM busy)`},
	{"a kernel is of another GPU's code", "agent", `UPDATE rtl_launch SET agent_id = (SELECT id FROM rtl_agent o WHERE o.id <> rtl_launch.agent_id)
		WHERE id = (SELECT launch_id FROM a)`},
	{"a session was detached before it was armed", "session", `UPDATE rtl_session SET detached_ns = armed_ns - 1`},
	{"a session is of another process", "session", `UPDATE rtl_session SET pid = pid + 1`},
	{"records are said to be lost, and none is missing", "lost", `INSERT INTO rtl_loss(session_id, cause, records)
		VALUES(1, 'ring full: records discarded by the payload', 3)`},
	{"more records are said to be lost than are missing", "lost", `DELETE FROM rtl_dispatch` + isA + `; INSERT INTO rtl_loss(session_id, cause, records)
		VALUES(1, 'ring full: records discarded by the payload', 2)`},
	{"fewer records are said to be lost than are missing", "missing", `DELETE FROM rtl_dispatch` + isBoth + `; INSERT INTO rtl_loss(session_id, cause, records)
		VALUES(1, 'ring full: records discarded by the payload', 1)`},
	{"records are lost as they must never be", "loss", `INSERT INTO rtl_loss(session_id, cause, records)
		VALUES(1, 'holes in the sequence of records', 1)`},
}

// accounts are damages to rtl_coverage itself, without settle afterwards.
var accounts = []damage{
	{"no account of a queue", "coverage", `DELETE FROM rtl_coverage` + isQueue},
	{"an account of no queue", "coverage", `INSERT INTO rtl_coverage VALUES(100000, 0, 0, 0, 0, 0, 0, 0, 0, 0)`},
	{"a dispatch is missing, and the account is not", "coverage", `DELETE FROM rtl_dispatch` + isA},
	{"an untimed packet is missing, and the account is not", "coverage", `DELETE FROM rtl_untimed WHERE id = (SELECT id FROM u)`},
}

func init() {
	for _, column := range []string{
		"windows", "windows_open", "dispatches", "timed", "untimed", "unexplained", "others", "after_detach", "raw_before",
	} {
		accounts = append(accounts, damage{
			"an account with one more of " + column, "coverage",
			`UPDATE rtl_coverage SET ` + column + ` = ` + column + ` + 1` + isQueue,
		})
	}
}

// A comparison that cannot fail proves nothing: the comparison accepts a correct trace, and
// reports every damage to a copy of it.
func TestComparison(t *testing.T) {
	w := harness.Stress(10, 4, 64, "--pace", "1000")
	w.Sim = []string{"SOFTGPU_GPUS=2"}
	p := harness.Start(t, w)
	first := harness.ReadTrace(t, p.RecordUntil(t, 300*time.Millisecond, 1000).Trace)
	run := p.RecordLast(t, 600*time.Millisecond, 2000)
	threads := p.TIDs()
	check(t, p, threads, run)
	log := p.Truth(t)
	try := func(what string, notice func(*testing.T)) {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // no process is left to be disturbed
			notice(t)
		})
	}
	for _, d := range damages {
		try(d.what, func(t *testing.T) { mustNotice(t, log, first, threads, run.Trace, d, settle) })
	}
	for _, d := range accounts {
		try(d.what, func(t *testing.T) { mustNotice(t, log, first, threads, run.Trace, d, "") })
	}
	for what, change := range summaryDamages(run.Summary) {
		try("summary: "+what, func(t *testing.T) { mustNoticeSummary(t, log, run, run.Trace, change) })
	}
	for _, d := range counted {
		try(d.what, func(t *testing.T) {
			mustNoticeSummary(t, log, run, damaged(t, log, run.Trace, d.sql, settle), func(*report.Summary) {})
		})
	}
	// Separate, and without raw claims, which would hide as many missing kernels.
	try("nothing of a queue is there", func(t *testing.T) {
		gone := harness.ReadTrace(t, damaged(t, log, run.Trace, `DELETE FROM rtl_dispatch`+isQueue+`; DELETE FROM rtl_untimed`+isQueue+`;
			DELETE FROM rtl_window`+isQueue, settle))
		gone.Counters["raw_claims"] = 0
		if faults := compareAgain(t, log, threads, gone); faults["outside"] == 0 {
			t.Errorf("no message of kind \"outside\", only %v", faults)
		}
	})
	try("one trace for two", func(t *testing.T) {
		faults := compareAgain(t, log, threads, first, first)
		for _, kind := range []string{"overlap", "duplicate", "session"} {
			if faults[kind] == 0 {
				t.Errorf("no message of kind %q", kind)
			}
		}
	})
}

func mustNotice(t *testing.T, log *harness.Log, first *harness.Trace, threads map[int64]bool, trace string, d damage, after string) {
	second := harness.ReadTrace(t, damaged(t, log, trace, d.sql, after))
	faults := compareAgain(t, log, threads, first, second)
	switch {
	case d.kind == "" && len(faults) > 0:
		t.Errorf("found wrong, and is not: %v", faults)
	case d.kind != "" && faults[d.kind] == 0:
		t.Errorf("no message of kind %q, only %v", d.kind, faults)
	}
}

// compareAgain returns the number of messages of each kind.
func compareAgain(t *testing.T, log *harness.Log, threads map[int64]bool, traces ...*harness.Trace) map[string]int {
	t.Helper()
	var found findings
	c := harness.Compare(&found, log)
	for _, tr := range traces {
		c.Add(tr)
	}
	c.Finish(threads)
	for kind := range c.Faults() {
		if !slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, kind+": ") }) {
			t.Errorf("%q is counted, and no message says it", kind)
		}
	}
	return c.Faults()
}

// damaged makes a copy of a trace and changes it; the change must affect rows.
func damaged(t *testing.T, log *harness.Log, trace, change, after string) string {
	t.Helper()
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "damaged.db")
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", copied)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // the temporary tables are the connection's
	for _, step := range []string{"BEGIN", unfold, executedIn(log), victims, change} {
		if _, err := db.Exec(step); err != nil {
			t.Fatalf("%v in %s", err, step)
		}
	}
	mustHaveChanged(t, db, change)
	if _, err := db.Exec(after + fold + "COMMIT"); err != nil {
		t.Fatal(err)
	}
	return copied
}

func mustHaveChanged(t *testing.T, db *sql.DB, change string) {
	t.Helper()
	var rows int
	if err := db.QueryRow("SELECT changes()").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows == 0 && !strings.HasPrefix(change, "SELECT") {
		t.Fatal("the recording has nothing that could be damaged so")
	}
}

// counted are damages that only the payload's counters contradict.
var counted = []damage{
	{"times are said to be from the other kind of signal", "summary", `UPDATE rtl_dispatch SET flags = flags + 1 - 2 * (flags & 1)` + isA},
	{"the payload counts one dispatch more", "summary", `UPDATE rtl_counter SET value = value + 1 WHERE name = 'dispatches'`},
	{"the payload counts a raw claim more", "summary", `UPDATE rtl_counter SET value = value + 1 WHERE name = 'raw_claims'`},
}

// summaryDamages are one for each figure.
func summaryDamages(s report.Summary) map[string]func(*report.Summary) {
	changes := map[string]func(*report.Summary){
		"a kernel's calls":      func(s *report.Summary) { s.Kernels[0].Calls++ },
		"a kernel's time":       func(s *report.Summary) { s.Kernels[0].TotalNS++ },
		"a GPU's dispatches":    func(s *report.Summary) { s.GPUs[0].Dispatches++ },
		"a reason's packets":    func(s *report.Summary) { s.Coverage.Untimed[0].Packets++ },
		"a loss that is none":   func(s *report.Summary) { s.Losses = append(s.Losses, report.Loss{Cause: "none", Records: 1}) },
		"a reason that is none": func(s *report.Summary) { s.Coverage.Untimed[0].Reason = "none" },
	}
	for what, part := range map[string]func(*report.Summary) reflect.Value{
		"Coverage": func(s *report.Summary) reflect.Value { return reflect.ValueOf(&s.Coverage).Elem() },
		"Pauses":   func(s *report.Summary) reflect.Value { return reflect.ValueOf(&s.Pauses).Elem() },
	} {
		for i, n := 0, part(&s).NumField(); i < n; i++ {
			if part(&s).Field(i).Kind() == reflect.Int64 {
				changes[what+"."+part(&s).Type().Field(i).Name] = func(s *report.Summary) {
					part(s).Field(i).SetInt(part(s).Field(i).Int() + 1)
				}
			}
		}
	}
	return changes
}

func mustNoticeSummary(t *testing.T, log *harness.Log, run harness.Run, trace string, change func(*report.Summary)) {
	run.Summary.Kernels = slices.Clone(run.Summary.Kernels)
	run.Summary.GPUs = slices.Clone(run.Summary.GPUs)
	run.Summary.Coverage.Untimed = slices.Clone(run.Summary.Coverage.Untimed)
	change(&run.Summary)
	var found findings
	c := harness.Compare(&found, log)
	c.Summary(run, harness.ReadTrace(t, trace))
	if c.Faults()["summary"] == 0 {
		t.Errorf("not noticed: %v", c.Faults())
	}
}
