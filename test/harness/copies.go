package harness

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Copy is a row of rtl_copy. GPUs are the process's ordinals, -1 is the host.
type Copy struct {
	TID              int64
	From, To         int64
	Direction, Bytes int64
	Reason           string // "none": it has times
	SubmitNS         int64
	StartNS, EndNS   int64
}

// CopyCoverage is the row of rtl_kind_coverage for copies.
type CopyCoverage struct{ Begun, Timed, Untimed, Unexplained int64 }

// ReadCopies reads a trace's copies in the order of submits, and their account.
func ReadCopies(t testing.TB, path string) (found []Copy, account CopyCoverage) {
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
		found = append(found, c)
		return err
	})
	err = errors.Join(err, db.QueryRow("SELECT coalesce(sum(begun), 0), coalesce(sum(timed), 0), coalesce(sum(untimed), 0), coalesce(sum(unexplained), 0) FROM rtl_kind_coverage WHERE kind = 'memory-copy'").
		Scan(&account.Begun, &account.Timed, &account.Untimed, &account.Unexplained))
	if err != nil {
		t.Fatal(err)
	}
	return found, account
}

// CopyLog has the copies that the GPUs made. Large copies within one GPU are the runtime's own
// kernels, whose bytes are not in the log.
type CopyLog struct {
	made map[uint64][]*simlog.Record // by completion signal and in order
	rest []*simlog.Record            // without times for anybody to read, such as an engine's part of a copy over xGMI
}

// CopyTruth reads the log of a workload that has ended.
func (p *Process) CopyTruth(t testing.TB) *CopyLog {
	t.Helper()
	if err := simlog.Wait(p.log); err != nil {
		t.Fatal(err)
	}
	l := &CopyLog{made: map[uint64][]*simlog.Record{}}
	for r, err := range simlog.All(p.log) {
		if err != nil {
			t.Fatal(err)
		}
		l.add(r)
	}
	slices.SortFunc(l.rest, inTime)
	for _, records := range l.made {
		slices.SortFunc(records, inTime)
	}
	return l
}

func inTime(a, b *simlog.Record) int { return cmp.Compare(a.StartNS, b.StartNS) }

// since returns the index of the first record from ns on.
func since(records []*simlog.Record, ns int64) int {
	i, _ := slices.BinarySearchFunc(records, ns, func(r *simlog.Record, ns int64) int { return cmp.Compare(int64(r.StartNS), ns) })
	return i
}

func (l *CopyLog) add(r *simlog.Record) {
	switch {
	case r.Signal == 0:
	case r.Kind == simlog.Copy && r.Flags&simlog.Profiled == 0:
		l.rest = append(l.rest, r)
	case r.Kind == simlog.Copy || r.Kind == simlog.Kernel && r.Flags&simlog.Internal != 0:
		l.made[r.Signal] = append(l.made[r.Signal], r)
	}
}

// copyToleranceNS is a tick, and the runtime's rounding of it.
const copyToleranceNS = 50

// take finds and removes the copy with these times on a signal; 0: on any. nil: there is none.
func (l *CopyLog) take(signal uint64, startNS, endNS int64) *simlog.Record {
	if signal == 0 {
		for s := range l.made {
			if r := l.take(s, startNS, endNS); r != nil {
				return r
			}
		}
		return nil
	}
	records := l.made[signal]
	for i := since(records, startNS-copyToleranceNS); i < len(records) && int64(records[i].StartNS) <= startNS+copyToleranceNS; i++ {
		if d := int64(records[i].EndNS) - endNS; d >= -copyToleranceNS && d <= copyToleranceNS {
			r := records[i]
			l.made[signal] = slices.Delete(records, i, i+1)
			return r
		}
	}
	return nil
}

// takeRest finds and removes the part of a copy that another engine of the same GPU copied.
func (l *CopyLog) takeRest(node int, bytes, submitNS int64) bool {
	for i := since(l.rest, submitNS); i < len(l.rest); i++ {
		if r := l.rest[i]; r.Node == node && int64(r.Bytes) == bytes {
			l.rest = slices.Delete(l.rest, i, i+1)
			return true
		}
	}
	return false
}

// Made reports whether a GPU made the copy with these times, on this signal or, with 0, on any:
// the source's GPU, or else the destination's. Over xGMI two engines may each have made a half:
// the times are of the engine that completed the signal.
func (l *CopyLog) Made(signal uint64, r Copy) error {
	was := l.take(signal, r.StartNS, r.EndNS)
	if was == nil {
		return fmt.Errorf("%+v, the GPU made none with these times", r)
	}
	by := r.From
	if by < 0 {
		by = r.To
	}
	bytes := int64(was.Bytes)
	half := bytes > 0 && bytes == (r.Bytes+1)/2 && l.takeRest(was.Node, r.Bytes-bytes, r.SubmitNS)
	if int64(was.Node) != by || bytes != 0 && bytes != r.Bytes && !half {
		return fmt.Errorf("%+v, the GPU made %v with %d bytes", r, was, bytes)
	}
	return nil
}

// between returns the number of remaining copies in a time.
func (l *CopyLog) between(fromNS, toNS int64) (n int) {
	for _, records := range l.made {
		for _, r := range records {
			if int64(r.StartNS) > fromNS && int64(r.EndNS) < toNS {
				n++
			}
		}
	}
	return n
}

// SaysOfCopies returns a summary's section on copies; nil: none.
func SaysOfCopies(t testing.TB, s report.Summary) *copies.Report {
	t.Helper()
	said := s.Kinds[ring.KindMemoryCopy.String()]
	if said == nil {
		return nil
	}
	text, err := json.Marshal(said)
	all := &copies.Report{}
	if err := errors.Join(err, json.Unmarshal(text, all)); err != nil {
		t.Fatal(err)
	}
	return all
}

// MustSayCopies checks the summary's copies against the rows.
func MustSayCopies(t testing.TB, s report.Summary, rows []Copy, account CopyCoverage) {
	t.Helper()
	all := SaysOfCopies(t, s)
	if all == nil {
		t.Fatal("the summary says nothing of copies")
	}
	var timed, untimed, said, bytes, saidBytes, ns, saidNS int64
	for _, c := range rows {
		if c.Reason != "none" {
			untimed++
			continue
		}
		timed++
		bytes += c.Bytes
		ns += c.EndNS - c.StartNS
	}
	for _, d := range all.Directions {
		said += d.Copies
		saidBytes += d.Bytes
		saidNS += d.TotalNS
	}
	var saidUntimed int64
	for _, u := range all.Untimed {
		saidUntimed += u.Copies
	}
	if said != timed || saidBytes != bytes || saidNS != ns || saidUntimed != untimed || all.Timed != timed {
		t.Errorf("summary %+v; the rows say %d timed, %d bytes, %d ns, %d untimed", *all, timed, bytes, ns, untimed)
	}
	if account.Begun != all.Begun || account.Timed != timed || account.Untimed != untimed ||
		account.Unexplained != account.Begun-timed-untimed {
		t.Errorf("account %+v; the rows say %d timed, %d untimed", account, timed, untimed)
	}
}
