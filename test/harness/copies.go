package harness

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/truth"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A Copy is one of rtl_copy. GPUs are the process's ordinals, -1 is the host.
type Copy struct {
	TID              int64
	From, To         int64
	Direction, Bytes int64
	Reason           string // "none": it has times
	SubmitNS         int64
	StartNS, EndNS   int64
}

// CopyCoverage is a row of rtl_copy_coverage.
type CopyCoverage struct{ Begun, Timed, Untimed, Unexplained int64 }

// ReadCopies reads a trace's copies in the order of submits, and their account.
func ReadCopies(t testing.TB, path string) (copies []Copy, account CopyCoverage) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = each(db, `SELECT coalesce(t.tid, 0), coalesce(f.ordinal, -1), coalesce(o.ordinal, -1), c.direction, c.bytes, r.name,
			coalesce(c.submit_ns, 0), coalesce(c.start_ns, 0), coalesce(c.start_ns + c.duration_ns, 0)
		FROM rtl_copy c JOIN rtl_reason r ON r.id = c.reason_id LEFT JOIN rtl_thread t ON t.id = c.thread_id
		LEFT JOIN rtl_agent f ON f.id = c.from_agent_id LEFT JOIN rtl_agent o ON o.id = c.to_agent_id
		ORDER BY c.submit_ns`, func(r *sql.Rows) error {
		var c Copy
		err := r.Scan(&c.TID, &c.From, &c.To, &c.Direction, &c.Bytes, &c.Reason, &c.SubmitNS, &c.StartNS, &c.EndNS)
		copies = append(copies, c)
		return err
	})
	err = errors.Join(err, db.QueryRow("SELECT total(begun), total(timed), total(untimed), total(unexplained) FROM rtl_copy_coverage").
		Scan(&account.Begun, &account.Timed, &account.Untimed, &account.Unexplained))
	if err != nil {
		t.Fatal(err)
	}
	return copies, account
}

// CopyLog is what the GPUs copied, by completion signal and in order. Copies
// within one GPU are kernels of the runtime's own, whose bytes are not in the log.
type CopyLog map[uint64][]truth.Record

// CopyTruth reads the log of a workload that has ended.
func (p *Process) CopyTruth(t testing.TB) CopyLog {
	t.Helper()
	if err := truth.Wait(p.log); err != nil {
		t.Fatal(err)
	}
	l := CopyLog{}
	for r, err := range truth.All(p.log) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Signal != 0 && (r.Kind == truth.Copy || r.Kind == truth.Kernel && r.Flags&truth.Internal != 0) {
			l[r.Signal] = append(l[r.Signal], r)
		}
	}
	for _, records := range l {
		slices.SortFunc(records, func(a, b truth.Record) int { return cmp.Compare(a.StartNS, b.StartNS) })
	}
	return l
}

// copyToleranceNS: a tick, and the runtime's own rounding of it.
const copyToleranceNS = 50

// Take finds the copy with these times among those of a signal, 0: of any, and takes it out.
func (l CopyLog) Take(signal uint64, startNS, endNS int64) (truth.Record, bool) {
	if signal == 0 {
		for s := range l {
			if r, found := l.Take(s, startNS, endNS); found {
				return r, true
			}
		}
		return truth.Record{}, false
	}
	records := l[signal]
	i, _ := slices.BinarySearchFunc(records, startNS-copyToleranceNS, func(r truth.Record, ns int64) int { return cmp.Compare(int64(r.StartNS), ns) })
	for ; i < len(records) && int64(records[i].StartNS) <= startNS+copyToleranceNS; i++ {
		if d := int64(records[i].EndNS) - endNS; d >= -copyToleranceNS && d <= copyToleranceNS {
			r := records[i]
			l[signal] = slices.Delete(records, i, i+1)
			return r, true
		}
	}
	return truth.Record{}, false
}

// Made: a GPU made the copy, with these times, on this signal or 0: on any; that of the
// source, or else of the destination.
func (l CopyLog) Made(signal uint64, r Copy) error {
	was, found := l.Take(signal, r.StartNS, r.EndNS)
	by := r.From
	if by < 0 {
		by = r.To
	}
	if !found || int64(was.Node) != by || was.Bytes != 0 && int64(was.Bytes) != r.Bytes {
		return fmt.Errorf("%+v, the GPU made %v with %d bytes", r, was, was.Bytes)
	}
	return nil
}

// MustSayCopies checks the summary's copies against the rows.
func MustSayCopies(t testing.TB, s report.Summary, copies []Copy, account CopyCoverage) {
	t.Helper()
	if s.Copies == nil {
		t.Fatal("the summary says nothing of copies")
	}
	var timed, untimed, said, bytes, saidBytes, ns, saidNS int64
	for _, c := range copies {
		if c.Reason != "none" {
			untimed++
			continue
		}
		timed++
		bytes += c.Bytes
		ns += c.EndNS - c.StartNS
	}
	for _, d := range s.Copies.Directions {
		said += d.Copies
		saidBytes += d.Bytes
		saidNS += d.TotalNS
	}
	var saidUntimed int64
	for _, u := range s.Copies.Untimed {
		saidUntimed += u.Packets
	}
	if said != timed || saidBytes != bytes || saidNS != ns || saidUntimed != untimed || s.Copies.Timed != timed {
		t.Errorf("summary %+v; the rows say %d timed, %d bytes, %d ns, %d untimed", *s.Copies, timed, bytes, ns, untimed)
	}
	if account.Begun != s.Copies.Begun || account.Timed != timed || account.Untimed != untimed ||
		account.Unexplained != account.Begun-timed-untimed {
		t.Errorf("account %+v; the rows say %d timed, %d untimed", account, timed, untimed)
	}
}
