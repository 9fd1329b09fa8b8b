package calls

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func init() { tracedb.AddSchema(schema) } // package all does, which imports this one

var allKinds = []*kind.Kind{HIPRuntime, HIPCompiler, HSACore, HSAAMD, RCCL}

// numberOf returns the number of a function in records.
func numberOf(t testing.TB, name string) uint16 {
	t.Helper()
	row, known := function.Named(name)
	if !known {
		t.Fatalf("no function %s", name)
	}
	return uint16(row)
}

// collect runs a collector over what produce writes into the ring, and returns the trace.
func collect(t testing.TB, produce func(p *ringtest.Producer)) (string, collector.Result) {
	t.Helper()
	p := ringtest.NewProducer(t, 1<<16)
	produce(p)
	r, err := ring.Open(p.File, 1, 1<<20)
	must(t, err)
	defer r.Close()
	db, path := create(t)
	gone := make(chan struct{})
	close(gone) // everything is written already
	result, err := collector.New(r, begin(t, db, 42), allKinds).Run(context.Background(), gone)
	must(t, err, db.Close())
	return path, result
}

// spoilt are calls that no payload writes.
func spoilt(good Call, other uint16) (all []Call) {
	for _, spoil := range []func(*Call){
		func(c *Call) { c.StartNS = 0 },
		func(c *Call) { c.EndNS = c.StartNS - 1 },
		func(c *Call) { c.EndNS = 1 << 63 },
		func(c *Call) { c.Function = uint16(len(function.Table())) },
		func(c *Call) { c.Function = other },
		func(c *Call) { c.Flags = 2 },
		func(c *Call) { c.StackWords = stackWords + 1 },
	} {
		bad := good
		spoil(&bad)
		all = append(all, bad)
	}
	return all
}

func TestDecode(t *testing.T) {
	hip, hsa := ring.KindHIPRuntimeAPI, ring.KindHSACoreAPI
	malloc := Call{
		StartNS: 100, EndNS: 130, TID: 7, Function: numberOf(t, "hipMalloc"), Flags: HasOut, Result: 0xffffffff00000001,
		Registers: [6]uint64{0x7f0000001000, 4096, 1, 2, 3, 4},
	}
	launch := Call{
		StartNS: 140, EndNS: 150, TID: 7, Function: numberOf(t, "hipLaunchKernel"), StackWords: 2,
		Registers: [6]uint64{1, 2, 3, 4, 5, 6}, Stack: [5]uint64{7, 1 << 63, 9},
	}
	store := Call{StartNS: 10, EndNS: 11, Function: numberOf(t, "hsa_signal_store_relaxed"), Result: 99, Registers: [6]uint64{3, 4, 5}}
	covered := Coverage{Way: uint32(WayTable), Functions: 495, Hooked: 470, Excluded: 3, Omitted: 7, Unknown: 2, Dropped: 4}
	path, result := collect(t, func(p *ringtest.Producer) {
		ringtest.PutAs(p, hip.Type(typeCoverage), covered)
		ringtest.PutAs(p, hip.Type(typeCall), malloc)
		ringtest.PutAs(p, hip.Type(typeCall), launch)
		ringtest.PutAs(p, hip.Type(typeCall), malloc)
		ringtest.PutAs(p, hsa.Type(typeCall), store)
		for _, bad := range spoilt(malloc, store.Function) {
			ringtest.PutAs(p, hip.Type(typeCall), bad)
		}
		for _, bad := range []Coverage{{Way: uint32(WayCount)}, {Functions: 1, Hooked: 2}, {Entries: 1 << 31}, {Omitted: 1 << 31}, {Dropped: 1 << 31}} {
			ringtest.PutAs(p, hip.Type(typeCoverage), bad)
		}
		p.Unknown(hip.Type(typeCall), 1)
		p.Unknown(hip.Type(typeCall), 3)
		p.Unknown(hip.Type(typeCoverage), 2)
		p.Unknown(hip.Type(2), 1)
		covered.Hooked = 471
		ringtest.PutAs(p, hip.Type(typeCoverage), covered)
		ringtest.Put(p, ring.KindAccount{Kind: uint32(hip), Begun: 5})
		p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
	})
	if want := []tracedb.KindCoverage{
		{Kind: "hip-runtime-api", Begun: 5, Timed: 3, Unexplained: 2}, {Kind: "hsa-core-api", Begun: 1, Timed: 1},
	}; !slices.Equal(result.Kinds, want) {
		t.Errorf("%+v", result.Kinds)
	}
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	const word = "%016X"
	malloced := fmt.Sprintf(word+word, 0x7f0000001000, 4096)
	expect(t, read, `SELECT a.string, n.string, t.tid, start_ns, duration_ns, result, flags, hex(arguments) FROM rtl_call c
		JOIN rtl_function f ON f.id = c.function_id JOIN rocpd_string a ON a.id = f.api_id JOIN rocpd_string n ON n.id = f.name_id
		LEFT JOIN rtl_thread t ON t.id = c.thread_id ORDER BY c.id`,
		"hip-runtime-api|hipMalloc|7|100|30|1|1|"+malloced,
		"hip-runtime-api|hipLaunchKernel|7|140|10|0|0|"+fmt.Sprintf(word+word+word+word+word+word+word+word, 1, 2, 3, 4, 5, 6, 7, uint64(1<<63)),
		"hip-runtime-api|hipMalloc|7|100|30|1|1|"+malloced,
		"hsa-core-api|hsa_signal_store_relaxed|NULL|10|1|NULL|0|"+fmt.Sprintf(word+word, 3, 4))
	expect(t, read, "SELECT count(*) FROM rtl_function", "3")
	expect(t, read, "SELECT arguments FROM call WHERE function = 'hipMalloc' LIMIT 1", fmt.Sprintf(word+" "+word, 0x7f0000001000, 4096))
	expect(t, read, "SELECT records FROM rtl_loss WHERE cause = '"+collector.CauseRefused+"'", "16")
	expect(t, read, "SELECT a.string, way, functions, hooked, excluded, omitted, unknown, modules, entries, dropped FROM rtl_call_coverage JOIN rocpd_string a ON a.id = api_id",
		"hip-runtime-api|1|495|471|3|7|2|0|0|4")
}

// discarding is a session that stores nothing.
type discarding struct{ refused int }

func (*discarding) Agent(id uint32) uint32                          { return id }
func (h *discarding) Refuse()                                       { h.refused++ }
func (*discarding) Write(int, func(tracedb.KindWriter) error) error { return nil }

// FuzzDecode: a decoder keeps a call of its kind with possible times, or refuses the record.
func FuzzDecode(f *testing.F) {
	f.Add(uint16(0), uint16(2), []byte("a call"))
	f.Fuzz(func(t *testing.T, n, function uint16, bytes []byte) {
		var c Call
		copy((*[unsafe.Sizeof(c)]byte)(unsafe.Pointer(&c))[:], bytes)
		c.Function = function % 1024
		p := ringtest.NewProducer(t, 1<<12)
		ringtest.PutAs(p, ring.KindHIPRuntimeAPI.Type(int(n%3)), c)
		r, err := ring.Open(p.File, 1, 1<<20)
		must(t, err)
		defer r.Close()
		var h discarding
		d := HIPRuntime.NewDecoder(&h).(*decoder)
		_, err = r.Drain(1, d.Decode)
		must(t, err)
		if len(d.batch)+h.refused != 1 {
			t.Fatalf("%d kept, %d refused", len(d.batch), h.refused)
		}
		for _, c := range d.batch {
			if c.StartNS == 0 || c.EndNS < c.StartNS || !kind.SoundTime(c.EndNS) || d.store.known[c.Function].Kind != ring.KindHIPRuntimeAPI {
				t.Errorf("%+v", c)
			}
		}
	})
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func create(t testing.TB) (*tracedb.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := tracedb.Create(tracedb.Place{Path: path})
	must(t, err)
	return db, path
}

func begin(t testing.TB, db *tracedb.DB, pid uint32) *tracedb.Session {
	t.Helper()
	s, err := db.Begin(tracedb.SessionInfo{PID: pid, Command: "serve", ThreadName: func(tid uint32) string { return fmt.Sprint("t", tid) }})
	must(t, err)
	return s
}
