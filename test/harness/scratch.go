package harness

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/scratch"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// ScratchRequester is the program that asks the runtime for scratch memory as the hardware does.
func ScratchRequester() Workload { return Workload{Program: "scratch", LogsCalls: true} }

// ScratchRequest is the program's log entry of a request for memory, or that it is not needed any more.
type ScratchRequest struct {
	What              string // allocate, free
	BeforeNS, AfterNS int64
	Bytes             int64 // of a work-item
	Index             int64 // of the packet
}

// ScratchRequests reads the log of an ended program.
func (p *Process) ScratchRequests(t testing.TB) (all []ScratchRequest) {
	t.Helper()
	b, err := os.ReadFile(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var r ScratchRequest
		if err := scanLine(line, &r.What, &r.BeforeNS, &r.AfterNS, &r.Bytes, &r.Index); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// ScratchOperation is a row of the view scratch_memory. What is not known is 0.
type ScratchOperation struct {
	What                string
	TID, Queue          int64
	Bytes, Slots, Index int64
	StartNS, EndNS      int64
}

// Is reports whether the operation is what the runtime did for the request.
func (r ScratchRequest) Is(o ScratchOperation) bool {
	return r.What == o.What && o.StartNS >= r.BeforeNS-stampToleranceNS && o.StartNS <= r.AfterNS+stampToleranceNS &&
		(o.What == "free" || o.EndNS == 0 || o.Index == r.Index)
}

// ReadScratch reads a trace's operations in the order of starts, and when its first session was armed and detached.
func ReadScratch(t testing.TB, path string) (found []ScratchOperation, armedNS, detachedNS int64) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = each(db, `SELECT operation, coalesce(thread, 0), coalesce(queue, 0), coalesce(bytes, 0), coalesce(slots, 0), coalesce(dispatch, 0),
		coalesce(start_ns, 0), coalesce(end_ns, 0) FROM scratch_memory ORDER BY coalesce(start_ns, end_ns)`, func(r *sql.Rows) error {
		var o ScratchOperation
		err := r.Scan(&o.What, &o.TID, &o.Queue, &o.Bytes, &o.Slots, &o.Index, &o.StartNS, &o.EndNS)
		found = append(found, o)
		return err
	})
	if err == nil {
		err = db.QueryRow("SELECT armed_ns, detached_ns FROM rtl_session").Scan(&armedNS, &detachedNS)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found, armedNS, detachedNS
}

// CompareScratch compares the operations of a session, in the order of starts, with the requests, and returns how many it has compared.
func CompareScratch(t testing.TB, found []ScratchOperation, armedNS, detachedNS int64, requests []ScratchRequest) (compared int) {
	t.Helper()
	ratio := int64(0)
	for _, r := range requests {
		if len(found) > 0 && found[0].StartNS == 0 { // it began before the session
			found = found[1:]
		}
		switch {
		case len(found) > 0 && r.Is(found[0]):
		case r.BeforeNS > armedNS && r.AfterNS < detachedNS:
			t.Fatalf("not recorded: %+v; the next is %+v", r, found[:min(1, len(found))])
		default:
			continue // outside of the session
		}
		o := found[0]
		found = found[1:]
		compared++
		if o.EndNS == 0 || o.What != "allocate" {
			continue
		}
		if ratio == 0 {
			ratio = o.Bytes / r.Bytes
		}
		if o.EndNS < o.StartNS || o.TID == 0 || o.Queue == 0 || o.Bytes != ratio*r.Bytes || o.Slots <= 0 || o.Bytes < o.Slots*64*r.Bytes {
			t.Errorf("%+v for %+v", o, r)
		}
	}
	if len(found) > 0 || compared < 100 {
		t.Errorf("%d operations compared, %d that nobody asked for", compared, len(found))
	}
	return compared
}

// SaysOfScratch returns what the summary says of scratch memory; nil: nothing.
func SaysOfScratch(t testing.TB, s report.Summary) *scratch.Report {
	t.Helper()
	said := s.Kinds[ring.KindScratchMemory.String()]
	if said == nil {
		return nil
	}
	text, err := json.Marshal(said)
	all := &scratch.Report{}
	if err := errors.Join(err, json.Unmarshal(text, all)); err != nil {
		t.Fatal(err)
	}
	return all
}
