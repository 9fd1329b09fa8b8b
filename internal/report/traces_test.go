package report

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/allocations"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/kind/markers"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// second is when these sessions begin, in nanoseconds since the boot.
const second = 1_000_000_000

// produce writes what a payload would: two GPUs, three queues, four kernels.
type produce func(t *testing.T, p *ringtest.Producer)

func put[T interface {
	ring.Agent | ring.Queue | ring.Launch | ring.Dispatch | ring.Untimed | ring.Window | ring.LostRecord | ring.KindAccount
}](t *testing.T, p *ringtest.Producer, record T) {
	t.Helper()
	if !ringtest.Put(p, record) {
		t.Fatal("the test's ring is full")
	}
}

func header(t *testing.T, p *ringtest.Producer) {
	for id, text := range []string{
		"", "gfx942", "Cijk_Ailk_Bljk_HHS_BH_MT128x128x64_MI32x32x8x1_SN_1LDSB0_APM1_ABV0.kd",
		"_Z15rms_norm_kernelILi1024EEvPKfPf.kd", "evil\x1b[2Jkernel\u202e\n.kd", "copy_kernel.kd",
	} {
		if text != "" {
			p.String(uint32(id), text)
		}
	}
	for gpu := range uint32(2) {
		put(t, p, ring.Agent{ID: gpu + 1, GPU: gpu, Name: 1, BDF: 0x100 * (gpu + 1)})
	}
	for id := range uint32(3) {
		put(t, p, ring.Queue{ID: id + 1, Agent: id%2 + 1, Size: 1024})
		put(t, p, ring.Window{Queue: id + 1, Kind: uint32(ring.WindowOpen), TimeNS: second, Index: 1000})
	}
	for id := range uint32(4) {
		put(t, p, ring.Launch{ID: id + 1, Name: id + 2, Agent: 1, Grid: [3]uint32{1024, 1, 1}, Workgroup: [3]uint16{256, 1, 1}})
	}
}

// perQueue dispatches follow each other on every queue, 10 µs every 20 µs.
const perQueue = 1000

func whole(t *testing.T, p *ringtest.Producer) {
	header(t, p)
	for i := range uint64(perQueue) {
		for queue := range uint32(3) {
			start := second + 1000 + i*20_000
			put(t, p, ring.Dispatch{
				Queue: queue + 1, Launch: uint32(i*7%10)/3 + 1, Index: 1000 + i, TID: 500 + queue,
				SubmitNS: start - 2000 - i, StartNS: start, EndNS: start + 10_000,
			})
		}
	}
	for queue := range uint32(3) {
		put(t, p, ring.Window{Queue: queue + 1, Kind: uint32(ring.WindowClose), TimeNS: 1_025_000_000, Index: 1000 + perQueue, Dispatches: perQueue})
	}
	p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: second, DetachedNS: 1_025_000_000})
}

// gaps has everything that a summary must own up to.
func gaps(t *testing.T, p *ringtest.Producer) {
	header(t, p)
	put(t, p, ring.Dispatch{Queue: 1, Launch: 1, Index: 1000, StartNS: second + 1000, EndNS: second + 2_001_000, Flags: ring.FlagSubmitUnknown})
	put(t, p, ring.Untimed{Queue: 1, Index: 1001, Count: 1200, Reason: uint32(ring.ReasonNoSignal)})
	put(t, p, ring.Untimed{Queue: 2, Index: 1000, Count: 4, Reason: uint32(ring.ReasonNotCompleted)})
	put(t, p, ring.Untimed{Queue: 1, Index: 2205, Count: 5, Reason: uint32(ring.ReasonAfterDetach)})
	p.Hole(6)
	put(t, p, ring.LostRecord{Count: 4, FromNS: second, UntilNS: second + 1})
	put(t, p, ring.Window{Queue: 1, Kind: uint32(ring.WindowClose), TimeNS: second + 10_000_000, Index: 2210, Dispatches: 1204, Others: 1, After: 5, Raw: 3})
	put(t, p, ring.Window{Queue: 2, Kind: uint32(ring.WindowClose), TimeNS: second + 10_000_000, Index: 1004, Dispatches: 4})
	p.End(ring.EndRecord{End: uint32(ring.EndShutDown), ArmedNS: second, DetachedNS: second + 10_000_000})
}

// withCopies has copies of two directions, one without times and one that never came,
// and a kernel with which HIP fills memory.
func withCopies(t *testing.T, p *ringtest.Producer) {
	header(t, p)
	p.String(9, "__amd_rocclr_fillBufferAligned.kd")
	put(t, p, ring.Launch{ID: 9, Name: 9, Agent: 1})
	put(t, p, ring.Dispatch{Queue: 1, Launch: 9, Index: 1000, StartNS: second + 1000, EndNS: second + 3000, SubmitNS: second})
	for i := range uint64(10) {
		at := second + i*100_000
		ringtest.PutAs(p, copies.TypeCopy, copies.Copy{StartNS: at + 10_000, EndNS: at + 12_000, SubmitNS: at, Bytes: 50_000, To: 1, TID: 500, Direction: uint16(copies.HostToDevice)})
		ringtest.PutAs(p, copies.TypeCopy, copies.Copy{StartNS: at + 20_000, EndNS: at + 24_000, SubmitNS: at, Bytes: 1000, From: 2, TID: 500, Direction: uint16(copies.DeviceToHost)})
	}
	ringtest.PutAs(p, copies.TypeCopy, copies.Copy{SubmitNS: second, Bytes: 1000, From: 2, TID: 500, Direction: uint16(copies.DeviceToHost), Reason: uint16(ring.ReasonSharedSignal)})
	for queue := range uint32(3) {
		put(t, p, ring.Window{Queue: queue + 1, Kind: uint32(ring.WindowClose), TimeNS: second + 2_000_000, Index: 1000 + uint64(1-min(queue, 1)), Dispatches: uint64(1 - min(queue, 1))})
	}
	put(t, p, ring.KindAccount{Kind: uint32(ring.KindMemoryCopy), Begun: 22, Timed: 20, Untimed: 1})
	p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: second, DetachedNS: second + 2_000_000})
}

// withCalls has calls of HIP and HSA on two threads: a kernel's launch in one of them, errors, a
// wait, and a call that never returned.
func withCalls(t *testing.T, p *ringtest.Producer) {
	header(t, p)
	put(t, p, ring.Dispatch{Queue: 1, Launch: 1, Index: 1000, TID: 500, StartNS: second + 3000, EndNS: second + 5000, SubmitNS: second + 1500})
	call := func(name string, tid uint32, fromNS, forNS, result uint64) {
		number, known := function.Named(name)
		if !known {
			t.Fatalf("no function %s", name)
		}
		kind := function.Table()[number].Kind
		ringtest.PutAs(p, kind.Type(0), calls.Call{
			StartNS: second + fromNS, EndNS: second + fromNS + forNS, TID: tid, Function: uint16(number), Result: result,
		})
	}
	call("hipMalloc", 500, 100, 400, 2) // hipErrorOutOfMemory
	call("hipLaunchKernel", 500, 1000, 900, 0)
	call("hipStreamSynchronize", 500, 2000, 500_000, 0)
	call("hipStreamSynchronize", 501, 2000, 3_000_000, 0)
	call("hsa_system_get_info", 501, 10, 1, 0)
	call("hsa_signal_wait_scacquire", 501, 2100, 2_900_000, 7)
	hip, hsa := ring.KindHIPRuntimeAPI, ring.KindHSACoreAPI
	ringtest.PutAs(p, hip.Type(1), calls.Coverage{Way: uint32(calls.WayTable), Functions: 495, Hooked: 471, Excluded: 3, Unknown: 4})
	ringtest.PutAs(p, hsa.Type(1), calls.Coverage{Way: uint32(calls.WayGOT), Functions: 129, Hooked: 129, Modules: 3, Entries: 34})
	for queue := range uint32(3) {
		put(t, p, ring.Window{Queue: queue + 1, Kind: uint32(ring.WindowClose), TimeNS: second + 4_000_000, Index: 1000 + uint64(1-min(queue, 1)), Dispatches: uint64(1 - min(queue, 1))})
	}
	put(t, p, ring.KindAccount{Kind: uint32(hip), Begun: 5, Timed: 4})
	put(t, p, ring.KindAccount{Kind: uint32(ring.KindHIPCompilerAPI)})
	put(t, p, ring.KindAccount{Kind: uint32(hsa), Begun: 2, Timed: 2})
	p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: second, DetachedNS: second + 4_000_000})
}

// withAllocations: a block whose release is there, one whose release is not, a release of an older
// block, and requests that fail; one record is lost.
func withAllocations(t *testing.T, p *ringtest.Producer) {
	header(t, p)
	at := func(ns uint64, o allocations.Operation, address uint64) allocations.Allocation {
		return allocations.Allocation{StartNS: second + ns, EndNS: second + ns + 3000, Address: address, TID: 500, Operation: uint16(o)}
	}
	of := func(a allocations.Allocation, agent uint32, bytes uint64) allocations.Allocation {
		a.Agent, a.SizeBytes, a.Pool, a.Flags = agent, bytes, 0x5500, allocations.FlagAgentKnown
		return a
	}
	failed := of(at(700_000, allocations.Pool, 0), 1, 1<<42)
	failed.Status = 0x1008
	for _, a := range []allocations.Allocation{
		of(at(100_000, allocations.Pool, 0x7f0000000000), 1, 2<<20), of(at(200_000, allocations.Pool, 0x7f0000400000), 1, 64<<20),
		at(300_000, allocations.PoolFree, 0x7f0000000000), of(at(400_000, allocations.Region, 0x7f0000000000), 0, 4096),
		at(500_000, allocations.RegionFree, 0x7e0000000000), of(at(600_000, allocations.Virtual, 0x5600), 2, 1<<30),
		failed, failed, at(800_000, allocations.VirtualFree, 0x5600),
	} {
		ringtest.PutAs(p, allocations.TypeAllocation, a)
	}
	for queue := range uint32(3) {
		put(t, p, ring.Window{Queue: queue + 1, Kind: uint32(ring.WindowClose), TimeNS: second + 2_000_000, Index: 1000})
	}
	put(t, p, ring.KindAccount{Kind: uint32(ring.KindMemoryAllocation), Begun: 10, Timed: 9})
	p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: second, DetachedNS: second + 2_000_000})
}

// withMarkers has ranges of two threads, and kernels that these submitted within them.
func withMarkers(t *testing.T, p *ringtest.Producer) {
	header(t, p)
	for i := range uint64(6) {
		at := second + i*100_000
		put(t, p, ring.Dispatch{Queue: 1, Launch: 1, Index: 1000 + i, StartNS: at + 60_000, EndNS: at + 65_000, SubmitNS: at + 30_000, TID: 500 + uint32(i%2)})
	}
	mark := func(at uint64, tid uint32, operation markers.Operation, text string, number uint64) {
		r := markers.Call{TimeNS: second + at, TID: tid, Operation: uint16(operation), TextBytes: uint16(len(text)), Range: number}
		copy(r.Text[:], text)
		ringtest.PutAs(p, markers.TypeMarker, r)
	}
	mark(1, 500, markers.OpPop, "", 0)
	mark(2, 500, markers.OpStart, "request", 1)
	for i := range uint64(3) {
		at := i * 200_000
		mark(at+10_000, 500, markers.OpPush, "step", 0)
		mark(at+20_000, 500, markers.OpPush, "forward \x1b[2J", 0)
		mark(at+25_000, 500, markers.OpMark, "loaded", 0)
		mark(at+40_000, 500, markers.OpPop, "", 0)
		mark(at+150_000, 500, markers.OpPop, "", 0)
		mark(at+110_000, 501, markers.OpPush, "", 0)
		mark(at+120_000, 501, markers.OpPop, "", 0)
	}
	mark(500_000, 501, markers.OpStop, "", 1)
	mark(600_000, 501, markers.OpPush, "open", 0)
	ringtest.PutAs(p, markers.TypeCoverage, markers.Coverage{Roctx64: uint32(markers.Chained), Sdk: uint32(markers.Taken)})
	for queue := range uint32(3) {
		put(t, p, ring.Window{Queue: queue + 1, Kind: uint32(ring.WindowClose), TimeNS: second + 2_000_000, Index: 1000 + uint64(6*(1-min(queue, 1))), Dispatches: uint64(6 * (1 - min(queue, 1)))})
	}
	put(t, p, ring.KindAccount{Kind: uint32(ring.KindMarker), Begun: 26, Timed: 26})
	p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: second, DetachedNS: second + 2_000_000})
}

func nothing(t *testing.T, p *ringtest.Producer) {
	header(t, p)
	for queue := range uint32(3) {
		put(t, p, ring.Window{Queue: queue + 1, Kind: uint32(ring.WindowClose), TimeNS: second, Index: 1000})
	}
	p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: second, DetachedNS: 2 * second})
}

// traceOf goes the whole way: ring, collector, trace file.
func traceOf(t *testing.T, write produce) string {
	t.Helper()
	p := ringtest.NewProducer(t, 1<<19)
	write(t, p)
	path, err := collect(t, p, ring.Counters{QueuesSeen: 3})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// collect returns the trace and the collector's error.
func collect(t *testing.T, p *ringtest.Producer, counters ring.Counters) (path string, runErr error) {
	t.Helper()
	return collectFiltered(t, p, counters, nil)
}

func collectFiltered(t *testing.T, p *ringtest.Producer, counters ring.Counters, f *filter.Filter) (path string, runErr error) {
	t.Helper()
	reader, err := ring.Open(p.File, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "trace.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Create(place)
	if err != nil {
		t.Fatal(err)
	}
	session, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	close(gone) // everything is written already
	c := collector.New(reader, session, all.Kinds)
	c.Filter(f, func() uint64 { return second })
	_, runErr = c.Run(context.Background(), gone)
	for _, err := range []error{
		session.Pause(tracedb.Pause{TID: 500, StartNS: second, DurationNS: 41_000, Purpose: "attach"}),
		session.Pause(tracedb.Pause{TID: 501, StartNS: second, DurationNS: 88_000, Purpose: "grace"}),
		session.Counters(collector.Counters(counters, all.Kinds)),
		db.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return place.Path, runErr
}
