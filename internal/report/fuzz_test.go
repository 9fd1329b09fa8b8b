package report

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"unicode"

	"github.com/rtl-attach/rtl-attach/test/tracetest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// FuzzTrace: a trace file may have been made by anybody. patches are triples of
// two bytes of an offset, in 16ths, and the 16 bytes that are put there.
func FuzzTrace(f *testing.F) { fuzzTrace(f, smallTrace(f)) }

// FuzzThreads is the same with what threads did.
func FuzzThreads(f *testing.F) { fuzzTrace(f, tracetest.WriteThreads(f)) }

func fuzzTrace(f *testing.F, of string) {
	f.Helper()
	good, err := os.ReadFile(of)
	if err != nil {
		f.Fatal(err)
	}
	const step, patch = 16, 18
	f.Add([]byte{})
	f.Add(append([]byte{0, 1}, make([]byte, step)...))
	// Largest and least numbers where rows may lie.
	for at := 0; at < len(good)/step; at += 97 {
		f.Add(append([]byte{byte(at), byte(at >> 8)}, "\x80\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"...))
	}
	path := filepath.Join(f.TempDir(), "t.db")
	f.Fuzz(func(t *testing.T, patches []byte) {
		b := append([]byte(nil), good...)
		for ; len(patches) >= patch; patches = patches[patch:] {
			at := (int(patches[0]) | int(patches[1])<<8) * step % len(b)
			copy(b[at:], patches[2:patch])
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Make(path, Options{Kernels: 10, Gaps: 5})
		if err != nil {
			return
		}
		if err := everyForm(r, io.Discard); err != nil {
			t.Log(err)
		}
	})
}

func smallTrace(t testing.TB) string {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "t.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Create(place)
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		s.Agent(tracedb.Agent{ID: 1, Name: "gfx90a"}),
		s.Queue(tracedb.Queue{ID: 1, Agent: 1, SizePackets: 64}),
		s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "_Z4gemmPf.kd"}),
		s.Dispatches([]tracedb.Dispatch{
			{Queue: 1, Launch: 1, StartNS: 1000, EndNS: 1150, SubmitNS: 900, TID: 11},
			{Queue: 1, Launch: 1, StartNS: 1100, EndNS: 1250, SubmitNS: 950, Index: 1, TID: 11},
		}),
		s.Untimed(tracedb.Untimed{Queue: 1, Reason: 2, Index: 2, Packets: 2}),
		s.Window(tracedb.Window{Queue: 1, OpenNS: 800, Closed: true, CloseNS: 1600, EndIndex: 4, Dispatches: 4}),
		s.Pause(tracedb.Pause{TID: 11, StartNS: 700, DurationNS: 41000, Purpose: "attach"}),
		s.Lost(tracedb.Loss{Cause: "test", Records: 3}),
		s.Counters([]tracedb.Counter{{Name: tracedb.CounterQueuesSeen, Value: 1}}),
		s.End(tracedb.End{Reason: "detached", ArmedNS: 800, DetachedNS: 1600, Coverage: []tracedb.Coverage{
			{Queue: 1, Windows: 1, Dispatches: 4, Timed: 2, Untimed: 2},
		}}),
		db.Close())
	if err != nil {
		t.Fatal(err)
	}
	return place.Path
}

// TestOthersTrace: files that are no recorder's work are refused, or read for
// what their tables hold.
func TestOthersTrace(t *testing.T) {
	for name, c := range map[string]struct {
		sql     string
		refused bool
	}{
		"a view that never ends": {`DROP VIEW top; CREATE VIEW top AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
			SELECT x AS Name, x AS Calls, x AS TotalNs, x AS AvgNs, x AS MinNs, x AS MaxNs, x AS Pct FROM n`, false},
		"one of the recorder's, too": {`DROP VIEW rtl_dispatch; CREATE VIEW rtl_dispatch AS
			WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
			SELECT x AS id, x AS queue_id, x AS start_ns, x AS duration_ns, x AS queued_ns FROM n`, false},
		"a view for a table": {`DROP TABLE rtl_pause; CREATE VIEW rtl_pause AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
			SELECT x AS session_id, x AS tid, x AS duration_ns FROM n`, true},
		"a computed column": {`DROP TABLE rtl_loss; CREATE TABLE rtl_loss(records INTEGER, cause AS (hex(zeroblob(1000000000))))`, true},
		"a virtual table":   {`DROP TABLE rtl_loss; CREATE VIRTUAL TABLE rtl_loss USING rtree(id, cause, records)`, true},
		"least numbers": {`UPDATE rtl_coverage SET timed = -9223372036854775808, dispatches = -9223372036854775808,
			unexplained = -9223372036854775808, raw_before = 9223372036854775807;
			UPDATE rtl_loss SET records = -9223372036854775808; UPDATE rtl_pause SET duration_ns = -9223372036854775808;
			UPDATE rtl_execution SET duration_ns = -9223372036854775808, queued_ns = -9223372036854775808`, false},
		"names": {`UPDATE rocpd_string SET string = char(27) || '[2J' || id; UPDATE rtl_loss SET cause = char(155) || '31m';
			UPDATE rtl_reason SET text = char(8238) || id; UPDATE rtl_session SET end_reason = char(10) || 'x'`, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := smallTrace(t)
			change(t, path, c.sql)
			r, err := Make(path, Options{Kernels: 10})
			if c.refused != errors.Is(err, tracedb.ErrNotTrace) {
				t.Fatalf("refused %v: %v", !c.refused, err)
			}
			if err != nil {
				return
			}
			if err := everyForm(r, &harmlessWriter{t}); err != nil {
				t.Error(err)
			}
		})
	}
}

// everyForm writes all that a report can be written as.
func everyForm(r *Report, w io.Writer) error {
	errs := []error{r.Summary.WriteText(w), r.Summary.WriteJSON(w), r.WriteText(w, false), r.WriteText(w, true), r.WriteJSON(w)}
	for _, table := range Tables {
		errs = append(errs, r.WriteCSV(w, table))
	}
	return errors.Join(errs...)
}

func change(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statements); err != nil {
		t.Fatal(err)
	}
}

// A harmlessWriter takes nothing that a terminal would obey.
type harmlessWriter struct{ t *testing.T }

func (w *harmlessWriter) Write(p []byte) (int, error) {
	for _, c := range string(p) {
		if !unicode.IsPrint(c) && c != '\n' {
			w.t.Errorf("%q in %.100q", c, p)
		}
	}
	return len(p), nil
}
