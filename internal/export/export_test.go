package export

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Of an export that is interrupted nothing is left, in whatever it is.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{sample(t), few.write(t)} {
		for _, f := range Formats {
			output := filepath.Join(t.TempDir(), "out")
			_, err := f.Write(ctx, path, output, 0)
			if _, e := os.Lstat(output); !errors.Is(err, traceread.ErrInterrupted) || !errors.Is(e, os.ErrNotExist) {
				t.Errorf("%s: %v, %v", f.Name, err, e)
			}
		}
	}
}

// So it is in the middle of its dispatches.
func TestInterruptedInTheMiddle(t *testing.T) {
	for _, path := range []string{tracetest.Write(t, 10*batchRows, tracetest.InOrder), tracetest.WriteWithCalls(t, 10*batchRows)} {
		tr, err := openTrace(t.Context(), path)
		must(t, err)
		defer tr.Close()
		must(t, tr.linkCalls(t.Context()))
		for _, order := range []string{asRecorded, byStart, bySubmit} {
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			err := tr.dispatches(ctx, order, func(*dispatch) error {
				if n++; n == batchRows {
					cancel()
				}
				return nil
			})
			if !errors.Is(err, traceread.ErrInterrupted) || n > 2*batchRows {
				t.Errorf("%q: %v after %d", order, err, n)
			}
			cancel()
		}
	}
}

// Where rows have to be sorted, SQLite's sorter does it, not a B-tree.
func TestRowsAreSorted(t *testing.T) {
	tr, err := openTrace(t.Context(), callSample(t))
	must(t, err)
	defer tr.Close()
	must(t, tr.linkCalls(t.Context()))
	for _, query := range []string{selectRows + byStart, selectRows + bySubmit, selectLinkedRows + byStart} {
		rows, err := tr.linked.QueryContext(t.Context(), "EXPLAIN "+query, tr.MostRows)
		must(t, err)
		sorted := false
		for rows.Next() {
			var opcode string
			var other any
			must(t, rows.Scan(&other, &opcode, &other, &other, &other, &other, &other, &other))
			sorted = sorted || opcode == "SorterOpen"
		}
		must(t, errors.Join(rows.Err(), rows.Close()))
		if !sorted {
			t.Errorf("no sorter: %s", query)
		}
	}
}

// A failing reader of the output ends the export with its error.
func TestWriteError(t *testing.T) {
	tr, err := openTrace(t.Context(), sample(t))
	must(t, err)
	defer tr.Close()
	for _, f := range Formats {
		if !f.Streams() {
			continue
		}
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		must(t, err)
		defer full.Close()
		if _, err := f.stream(t.Context(), tr, full, false); err == nil {
			t.Errorf("%s: written to a full device", f.Name)
		}
	}
}

// FuzzTrace: a trace may have been made by anybody. patches are triples of two
// bytes of an offset, in 16ths, and the 16 bytes that are put there.
func FuzzTrace(f *testing.F) {
	fuzzTrace(f, readFile(f, sample(f)), 397)
}

// FuzzLinkedTrace does so with a trace that has links.
func FuzzLinkedTrace(f *testing.F) { fuzzTrace(f, readFile(f, few.write(f)), 1973) }

// fuzzTrace begins with patches at every so many steps of a trace.
func fuzzTrace(f *testing.F, good []byte, apart int) {
	const step, patch = 16, 18
	f.Add([]byte{})
	for at := 0; at < len(good)/step; at += apart {
		f.Add(append([]byte{byte(at), byte(at >> 8)}, "\x80\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"...))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, patches []byte) {
		b := append([]byte(nil), good...)
		for ; len(patches) >= patch; patches = patches[patch:] {
			at := (int(patches[0]) | int(patches[1])<<8) * step % len(b)
			copy(b[at:], patches[2:patch])
		}
		path, output := filepath.Join(dir, "t.db"), filepath.Join(dir, "out")
		must(t, os.WriteFile(path, b, 0o600))
		for _, format := range Formats {
			ctx, cancel := context.WithTimeout(t.Context(), hang.Limit)
			_, err := format.Write(ctx, path, output, 0)
			if cancel(); errors.Is(err, traceread.ErrInterrupted) {
				t.Fatalf("%s takes for ever", format.Name)
			}
			if e := os.Remove(output); (err == nil) != (e == nil) {
				t.Fatalf("%s: %v, and of its output: %v", format.Name, err, e)
			}
		}
	})
}

// What no GPU does is refused by formats that would have to hold it.
func TestTooManyAtOnce(t *testing.T) {
	db, path := create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 1})
	must(t, err)
	var batch []tracedb.Dispatch
	for n := range uint64(mostLanes + 1) {
		batch = append(batch, tracedb.Dispatch{StartNS: 1 + n, EndNS: 1 << 40})
	}
	must(t, errors.Join(s.Dispatches(batch), db.Close()))
	for _, f := range Formats {
		_, err := f.Write(t.Context(), path, filepath.Join(t.TempDir(), "out"), 0)
		if refused := f.Name == "pftrace" || f.Name == "chrome"; refused != errors.Is(err, traceread.ErrImpossible) || !refused && err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func TestCoverageInWords(t *testing.T) {
	for want, c := range map[string]Coverage{
		"2 of 2 dispatches timed":                                                   {Settled: true, Dispatches: 2, Timed: 2},
		"1 of 2 dispatches timed; 1 record lost":                                    {Settled: true, Dispatches: 2, Timed: 1, Lost: 1},
		"2 of 2 dispatches timed; records lost, not known how many":                 {Settled: true, Dispatches: 2, Timed: 2, LostMore: true},
		"2 of 2 dispatches timed; 4 records lost; records lost, not known how many": {Settled: true, Dispatches: 2, Timed: 2, Lost: 4, LostMore: true},
		"0 of 0 dispatches timed; 2 queues without a seen end; 1 claim where a queue was not recorded yet, or never; 1 queue of another tool or without hardware; 3 queues seen and never recorded": {
			Settled: true, OpenEnded: 2, RawClaims: 1, Foreign: 1, Unrecorded: 3,
		},
		"the recorder was killed: what is missing is not known": {Unfinished: "the recorder was killed"},
		"still being recorded; complete up to 1.5 s after its begin; 2 of 3 dispatches timed": {
			Unfinished: "still being recorded", CompleteNS: 1_500_000_000, Dispatches: 3, Timed: 2,
		},
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if c.Complete() != (want == "2 of 2 dispatches timed") {
			t.Errorf("%q: complete %v", want, c.Complete())
		}
	}
}

// What was lost is never a number that nobody knows.
func TestLossesThatNobodyCounted(t *testing.T) {
	path := sample(t)
	change(t, path, "UPDATE rtl_loss SET records = 0 WHERE session_id = 1; INSERT INTO rtl_loss(session_id, cause, records) VALUES (2, 'x', 0)")
	tr, err := openTrace(t.Context(), path)
	must(t, err)
	defer tr.Close()
	for i, want := range []Coverage{{Lost: 0, LostMore: true}, {Lost: 3, LostMore: true}, {Lost: 3}} {
		if c := tr.coverage[tr.sessions[i]]; c.Lost != want.Lost || c.LostMore != want.LostMore || c.Complete() {
			t.Errorf("session %d: %+v", i+1, c)
		}
	}
	data, _ := exported(t, "rocprofv3", path)
	for _, want := range []string{`"records_lost":0,"records_lost_unknown":true`, `"records_lost":3,"records_lost_unknown":false`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
}
