package allocations

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// reported returns the section on a trace.
func reported(t *testing.T, path string, window traceread.Span) *Report {
	t.Helper()
	tr, err := traceread.Open(context.Background(), path)
	must(t, err)
	defer tr.Close()
	s, err := read(&kind.Reading{Ctx: context.Background(), Trace: tr, Window: window})
	must(t, err)
	return s.Value.(*Report)
}

// stored returns a trace of one process with these records.
func stored(t *testing.T, batch []Allocation) string {
	t.Helper()
	db, path := create(t)
	s := begin(t, db, 42)
	must(t, s.Kind(len(batch), func(w tracedb.KindWriter) error { return Store(w, batch) }), s.End(tracedb.End{Reason: "detached"}), db.Close())
	return path
}

func TestReport(t *testing.T) {
	r := reported(t, write(t), traceread.Always) // two processes, each with the sample
	var memory []Memory
	for _, m := range r.Memory {
		memory = append(memory, *m)
	}
	for i := range memory {
		memory[i].of = owner{}
	}
	if want := []Memory{
		{"GPU 0", 400, 1102, 0, 0, owner{}}, {"GPU 1", 128, 1310, 0, 0, owner{}}, {"host", 94, 1810, 4, 94, owner{}}, {"unknown", 10, 1610, 2, 10, owner{}},
	}; !slices.Equal(memory, want) {
		t.Errorf("%+v, want %+v", memory, want)
	}
	if r.Older != 2 || len(r.Unreleased) != 6 || r.Unreleased[0].Bytes != 40 || len(r.Failures) != 1 || r.Failures[0].Calls != 2 {
		t.Errorf("%+v", r)
	}
}

// What was allocated in the window and released after it is unreleased; what was allocated before it
// has a size, and is not counted.
func TestReportWindow(t *testing.T) {
	r := reported(t, stored(t, []Allocation{
		made(1000, 0x1000, 100, 0), made(2000, 0x2000, 200, 0), freed(2100, 0x1000), made(2200, 0x3000, 300, 0), freed(2300, 0x3000), freed(3000, 0x2000),
	}), traceread.Span{BeginNS: 2000, EndNS: 3000})
	m := r.Memory[0]
	if len(r.Memory) != 1 || m.PeakBytes != 500 || m.UnreleasedBlocks != 1 || m.UnreleasedBytes != 200 || r.Older != 0 {
		t.Errorf("%+v", m)
	}
	if free := r.Operations[1]; free.Operation != "pool free" || free.Calls != 2 || free.Bytes != 400 {
		t.Errorf("%+v", free)
	}
}

// The report lists the largest ten, and no sum overflows.
func TestMany(t *testing.T) {
	var batch []Allocation
	for i := range uint64(50) {
		batch = append(batch, made(1000+20*i, 0x1000*(i+1), kind.MostCount-i*7%50, 0))
	}
	r := reported(t, stored(t, batch), traceread.Always)
	if len(r.Unreleased) != mostShown || !slices.IsSortedFunc(r.Unreleased, largerFirst) || r.Unreleased[9].Bytes != kind.MostCount-9 {
		t.Errorf("%+v", r.Unreleased)
	}
	path := stored(t, batch)
	change(t, path, "UPDATE rtl_allocation SET duration_ns = 4611686018427387000, start_ns = 1")
	if r := reported(t, path, traceread.Always); r.Operations[0].TotalNS <= 0 || r.Memory[0].PeakBytes <= 0 {
		t.Errorf("%+v", r.Operations[0])
	}
}

// What no recorder writes is not counted, or refused.
func TestHostileReport(t *testing.T) {
	path := stored(t, []Allocation{made(1000, 0x1000, 100, 0), made(1100, 0x2000, 100, 0), freed(1200, 0x2000)})
	for _, statement := range []string{
		"UPDATE rtl_allocation SET bytes = 9223372036854775807", "UPDATE rtl_allocation SET session_id = 9",
		"UPDATE rtl_allocation SET start_ns = -9223372036854775808", "UPDATE rtl_allocation SET operation = -1",
		"UPDATE rtl_allocation SET status = 1 << 62 | id", "UPDATE rtl_allocation SET agent_id = 5",
		"UPDATE rtl_allocation SET bytes = 'x'",
	} {
		change(t, path, statement)
		tr, err := traceread.Open(context.Background(), path)
		must(t, err)
		s, err := read(&kind.Reading{Ctx: context.Background(), Trace: tr, Window: traceread.Always})
		if err == nil && (s.Timed != 0 || strings.Contains(s.Lines[0].Text, "-")) {
			t.Errorf("%s: %+v", statement, s.Value)
		}
		tr.Close()
	}
}
