package allocations

import (
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func init() { tracedb.AddSchema(calls.HIPRuntime.Schema) }

func called(t *testing.T, name string, tid uint32, fromNS, untilNS uint64) calls.Call {
	t.Helper()
	n, known := function.Named(name)
	if !known {
		t.Fatal(name)
	}
	return calls.Call{StartNS: fromNS, EndNS: untilNS, TID: tid, Function: uint16(n)}
}

// withCalls returns a trace of one process with allocations and calls.
func withCalls(t *testing.T) string {
	t.Helper()
	by := func(tid uint32, a Allocation) Allocation {
		a.TID = tid
		return a
	}
	db, path := create(t)
	s := begin(t, db, 42)
	must(t,
		s.Kind(10, func(w tracedb.KindWriter) error {
			return Store(w, []Allocation{
				made(1000, 0x1000, 100, 0), made(1200, 0x2000, 200, 0), // each in a call of its own
				made(1205, 0x2800, 1, 0),                       // a second one in a call
				made(1400, 0x3000, 50, 0), freed(1500, 0x3000), // released
				made(1600, 0x4000, 400, 0),          // in no call
				by(9, made(1000, 0x5000, 800, 0)),   // in another thread's time
				by(0, made(1001, 0x6000, 3, 0)),     // of no known thread
				by(7, made(1800, 0x7000, 1000, 0)),  // in the outer one of two calls
				by(11, made(0x10000, 0x8000, 7, 0)), // exactly at a begin
				by(11, made(0x10020, 0x9000, 9, 0)), // exactly at an end
			})
		}),
		s.Kind(6, func(w tracedb.KindWriter) error {
			return calls.Store(w, ring.KindHIPRuntimeAPI, []calls.Call{
				called(t, "hipMalloc", 7, 1190, 1300), called(t, "hipMalloc", 7, 990, 1100), // not in the order of time
				called(t, "hipMalloc", 7, 1390, 1420), called(t, "hipFree", 8, 900, 3000),
				called(t, "hipModuleLoad", 7, 1700, 1900), called(t, "hipMalloc", 7, 1790, 1850),
				called(t, "hipHostMalloc", 11, 0x10000, 0x10020),
			})
		}),
		s.Kind(1, func(w tracedb.KindWriter) error { // not of HIP
			return calls.Store(w, ring.KindHSAAMDExtAPI, []calls.Call{called(t, "hsa_amd_memory_pool_allocate", 9, 900, 3000)})
		}),
		s.End(tracedb.End{Reason: "detached"}), db.Close())
	return path
}

func TestCallSites(t *testing.T) {
	path := withCalls(t)
	r := reported(t, path, traceread.Always)
	if want := []Site{
		{"host", "hipMalloc", "pool allocate", 42, 7, 4, 1301},
		{"host", "", "pool allocate", 42, 9, 1, 800},
		{"host", "", "pool allocate", 42, 7, 1, 400},
		{"host", "hipHostMalloc", "pool allocate", 42, 11, 2, 16},
		{"host", "", "pool allocate", 42, 0, 1, 3},
	}; !slices.Equal(r.Sites, want) || r.SitesInAll != 5 {
		t.Errorf("%+v, want %+v", r.Sites, want)
	}
	if b := r.Unreleased[0]; b.Bytes != 1000 || b.Function != "hipMalloc" {
		t.Errorf("%+v", b)
	}
	var blocks int64
	for _, s := range r.Sites {
		blocks += s.Blocks
	}
	if blocks != r.Memory[0].UnreleasedBlocks {
		t.Errorf("%d blocks, want %d", blocks, r.Memory[0].UnreleasedBlocks)
	}
	if r := reported(t, path, traceread.Span{BeginNS: 1200, EndNS: 1300}); len(r.Sites) != 1 || r.Sites[0].Blocks != 2 || r.Sites[0].Function != "hipMalloc" {
		t.Errorf("%+v", r.Sites)
	}
	change(t, path, "UPDATE rtl_call SET start_ns = 9223372036854775807, duration_ns = 9223372036854775807 WHERE id % 2; UPDATE rtl_call SET duration_ns = -1 WHERE id % 2 = 0")
	if r := reported(t, path, traceread.Always); slices.ContainsFunc(r.Sites, func(s Site) bool { return s.Function != "" }) {
		t.Errorf("by impossible times: %+v", r.Sites)
	}
}

// A trace without calls has threads and operations.
func TestCallSitesWithoutCalls(t *testing.T) {
	path := withCalls(t)
	change(t, path, "DROP TABLE rtl_call")
	r := reported(t, path, traceread.Always)
	if len(r.Sites) != 4 || r.Sites[0] != (Site{"host", "", "pool allocate", 42, 7, 5, 1701}) {
		t.Errorf("%+v", r.Sites)
	}
}
