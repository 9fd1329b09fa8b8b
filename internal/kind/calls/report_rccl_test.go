package calls

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const float32Type, groupNS = 7, 300

// reduce is a call of ncclAllReduce by a rank, whose communicator has its thread's number.
func reduce(t *testing.T, tid uint32, startNS, count uint64) Call {
	c := call(t, "ncclAllReduce", tid, startNS, startNS+20)
	c.Registers[2], c.Registers[3], c.Registers[5], c.StackWords = count, float32Type, uint64(tid), 1
	return c
}

// exchange is a group with a send and a receive.
func exchange(t *testing.T, tid uint32, startNS uint64) []Call {
	send, receive := call(t, "ncclSend", tid, startNS+10, startNS+15), call(t, "ncclRecv", tid, startNS+20, startNS+25)
	for _, c := range []*Call{&send, &receive} {
		c.Registers[1], c.Registers[2], c.Registers[4] = 10, float32Type, uint64(tid)
	}
	return []Call{
		call(t, "ncclGroupStart", tid, startNS, startNS+5), send, receive,
		call(t, "ncclGroupEnd", tid, startNS+30, startNS+groupNS),
	}
}

// collectives makes a trace of three ranks: the second one is 100 ns late, and the third one's first operation was not recorded.
func collectives(t *testing.T) string {
	db, path := create(t)
	s := begin(t, db, 42)
	must(t, s.Agent(tracedb.Agent{ID: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}), s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "k"}))
	var all []Call
	var kernels []tracedb.Dispatch
	kernel := func(tid uint32, submitNS uint64) {
		kernels = append(kernels, tracedb.Dispatch{Queue: 1, Launch: 1, TID: tid, SubmitNS: submitNS, StartNS: submitNS + 5, EndNS: submitNS + 1005})
	}
	for i := range uint64(20) {
		for _, tid := range []uint32{7, 8, 9} {
			at := 10_000*(i+1) + map[uint32]uint64{7: 0, 8: 100, 9: 30}[tid]
			if tid != 9 || i > 0 {
				all = append(all, reduce(t, tid, at, 1000+i))
				kernel(tid, at+10)
			}
			all = append(all, exchange(t, tid, at+1000)...)
			kernel(tid, at+1000+groupNS-10)
		}
	}
	must(t,
		s.Kind(len(all), func(w tracedb.KindWriter) error { return Store(w, ring.KindRCCLAPI, all) }),
		s.Dispatches(kernels), s.End(tracedb.End{}), db.Close())
	return path
}

func readCommunicators(t *testing.T, path string) *Collectives {
	t.Helper()
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer tr.Close()
	c, err := readCollectives(&kind.Reading{Ctx: t.Context(), Trace: tr, Window: traceread.Span{BeginNS: 0, EndNS: math.MaxInt64}}, &api{id: ring.KindRCCLAPI})
	must(t, err)
	return c
}

// Ranks that make the same calls belong together, although one was attached to later; kernels count for the
// call, or for the group, that submitted them.
func TestCollectives(t *testing.T) {
	c := readCommunicators(t, collectives(t))
	if c == nil || len(c.Communicators) != 1 {
		t.Fatalf("%+v", c)
	}
	of := c.Communicators[0]
	want := []TransferSum{
		{Function: "ncclRecv + ncclSend", Calls: 120, Bytes: 120 * 40, Kernels: 60, GPUNS: 60_000, BytesPerSecond: 80e6, timedBytes: 120 * 40},
		{Function: "ncclAllReduce", Calls: 59, Bytes: 4 * (3*20_190 - 1000), Kernels: 59, GPUNS: 59_000, BytesPerSecond: 4038644067, timedBytes: 4 * (3*20_190 - 1000)},
	}
	if !reflect.DeepEqual(of.Functions, want) {
		t.Errorf("%+v, want %+v", of.Functions, want)
	}
	if l := (RankLateness{Operations: 19, P50NS: 100, P99NS: 100, MaxNS: 100}); of.Lateness == nil || *of.Lateness != l || of.MatchedBy != "calls" {
		t.Errorf("%+v, %+v by %s", of.Lateness, l, of.MatchedBy)
	}
	for i, last := range []int64{0, 19, 0} {
		if r := of.Ranks[i]; r.Last != last || r.Thread != int64(7+i) || r.Rank != -1 || r.PID != 42 {
			t.Errorf("%+v", r)
		}
	}
	var text []string
	c.say(func(format string, args ...any) { text = append(text, format) })
	if len(text) != 4 {
		t.Errorf("%q", text)
	}
	if got := of.late(); !strings.HasPrefix(got, "the last rank calls after the first: p50 100 ns") || !strings.Contains(got, "thread 8 (t8)") {
		t.Errorf("%q", got)
	}
}

// Kernels of calls, and of groups of one communicator, have its number.
func TestKernelCommunicators(t *testing.T) {
	tr, err := traceread.Open(t.Context(), collectives(t))
	must(t, err)
	defer tr.Close()
	kernels, err := KernelCommunicators(t.Context(), tr)
	must(t, err)
	if len(kernels) != 119 {
		t.Errorf("%d kernels", len(kernels))
	}
	for kernel, number := range kernels {
		if number != -1 { // they make the same calls
			t.Errorf("kernel %d is of communicator %d", kernel, number)
		}
	}
}

// TestGroupCalls: calls of a group have the outermost end of it.
func TestGroupCalls(t *testing.T) {
	db, path := create(t)
	s := begin(t, db, 42)
	must(t, s.Kind(20, func(w tracedb.KindWriter) error {
		end, start := "ncclGroupEnd", "ncclGroupStart"
		return Store(w, ring.KindRCCLAPI, []Call{
			reduce(t, 7, 100, 1), call(t, end, 7, 200, 210), // it began before the recording
			call(t, start, 7, 300, 310), reduce(t, 7, 320, 2), call(t, start, 7, 350, 355), reduce(t, 7, 360, 3), call(t, end, 7, 400, 410),
			reduce(t, 8, 420, 4), reduce(t, 7, 430, 5), call(t, end, 7, 500, 510),
			reduce(t, 7, 600, 6),
			call(t, start, 7, 700, 710), reduce(t, 7, 720, 7), // still open at the end
		})
	}), s.End(tracedb.End{}), db.Close())
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT e.start_ns, c.start_ns FROM rccl_group_call g JOIN call e ON e.id = g.group_id JOIN call c ON c.id = g.call_id ORDER BY c.id",
		"500|320", "500|360", "500|430")
}

// TestHostileCollectives: whatever numbers a file has, a report comes to its end.
func TestHostileCollectives(t *testing.T) {
	path := collectives(t)
	change(t, path, `UPDATE rtl_call SET arguments = randomblob(200) WHERE id % 5 = 0;
		UPDATE rtl_call SET start_ns = 9223372036854775807 WHERE id % 7 = 0;
		UPDATE rtl_call SET duration_ns = -9223372036854775808 WHERE id % 11 = 0;
		UPDATE rtl_call SET thread_id = 99 WHERE id % 13 = 0;
		UPDATE rtl_call SET arguments = x'00000000000000000000000000000000ffffffffffffffff0000000000000007000000000000000000000000000000070000000000000000' WHERE id % 6 = 0;
		UPDATE rtl_execution SET duration_ns = 9223372036854775807 WHERE id % 3 = 0;
		UPDATE rtl_execution SET start_ns = -9223372036854775808, queued_ns = 9223372036854775807 WHERE id % 8 = 0`)
	c := readCommunicators(t, path)
	if c == nil {
		t.Fatal("nothing is read")
	}
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer tr.Close()
	if _, err := KernelCommunicators(t.Context(), tr); err != nil {
		t.Error(err)
	}
	for _, of := range c.Communicators {
		for _, s := range of.Functions {
			if s.Bytes < 0 || s.GPUNS < 0 || s.BytesPerSecond < 0 {
				t.Errorf("%+v", s)
			}
		}
		if l := of.Lateness; l != nil && (l.P50NS < 0 || l.P99NS < l.P50NS || l.MaxNS < l.P99NS) {
			t.Errorf("%+v", *l)
		}
	}
}

// Ranks that were made in the recording are matched by their id, and know their number.
func TestCommunicatorsByID(t *testing.T) {
	db, path := create(t)
	s := begin(t, db, 42)
	var all []Call
	for i, tid := range []uint32{7, 8, 9} {
		c := call(t, "ncclCommInitRank", tid, uint64(100+i), 200)
		c.Registers[0], c.Registers[1], c.Registers[2], c.Flags, c.StackWords = uint64(tid), 2, uint64(i%2), HasOut, stackWords
		c.Stack[0] = uint64(1 + i/2) // the third rank is another communicator's
		all = append(all, c)
	}
	for i := range uint64(10) {
		all = append(all, reduce(t, 7, 1000*(i+1), 5), reduce(t, 8, 1000*(i+1)+10, 5), reduce(t, 9, 1000*(i+1)+20, 5))
	}
	idle := all[0] // a communicator without a call
	idle.Registers[0] = 77
	all = append(all, idle)
	must(t, s.Kind(len(all), func(w tracedb.KindWriter) error { return Store(w, ring.KindRCCLAPI, all) }), s.End(tracedb.End{}), db.Close())
	c := readCommunicators(t, path)
	if len(c.Communicators) != 2 || len(c.Communicators[0].Ranks) != 2 || c.Communicators[0].MatchedBy != "id" || c.Communicators[1].MatchedBy != "none" {
		t.Fatalf("%+v", c.Communicators)
	}
	if r := c.Communicators[0].Ranks; r[0].Rank != 0 || r[1].Rank != 1 || r[1].Last != 10 {
		t.Errorf("%+v", r)
	}
}
