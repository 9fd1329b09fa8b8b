package calls

import (
	"database/sql"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// with returns a call with arguments in registers.
func with(c Call, registers ...uint64) Call {
	copy(c.Registers[:], registers)
	return c
}

// out is with for a function that has written its first argument.
func out(c Call, registers ...uint64) Call {
	c.Flags = HasOut
	return with(c, registers...)
}

// onStack is with for a function with arguments on the stack.
func onStack(c Call, stack ...uint64) Call {
	c.StackWords = uint8(copy(c.Stack[:], stack))
	return c
}

func failed(c Call) Call {
	c.Result = 1
	return c
}

// written writes HIP's calls and dispatches on queue 1 with launches 1 to 3, and opens the trace.
func written(t *testing.T, calls []Call, dispatches []tracedb.Dispatch) *sql.DB {
	t.Helper()
	read, _ := writtenTo(t, calls, dispatches)
	return read
}

func writtenTo(t *testing.T, calls []Call, dispatches []tracedb.Dispatch) (read *sql.DB, path string) {
	t.Helper()
	db, path := create(t)
	s := begin(t, db, 42)
	must(t, s.Agent(tracedb.Agent{ID: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}))
	for id, name := range []string{"a", "b", "c"} {
		must(t, s.Launch(tracedb.Launch{ID: uint32(id + 1), Agent: 1, Symbol: name}))
	}
	must(t, s.Kind(len(calls), func(w tracedb.KindWriter) error { return Store(w, ring.KindHIPRuntimeAPI, calls) }))
	for i := range dispatches {
		d := &dispatches[i]
		d.Queue, d.Index = 1, uint64(i)
		if d.StartNS == 0 {
			d.StartNS = d.SubmitNS + 1000
		}
		d.EndNS = d.StartNS + 10
	}
	account := tracedb.KindCoverage{Kind: ring.KindHIPRuntimeAPI.String(), Begun: uint64(len(calls)), Timed: uint64(len(calls))}
	must(t, s.Dispatches(dispatches), s.End(tracedb.End{Kinds: []tracedb.KindCoverage{account}}), db.Close())
	read, err := tracedb.Open(path)
	must(t, err)
	t.Cleanup(func() { read.Close() })
	return read, path
}

// TestStreamOf: the word is the one that has the stream, in a register or on the stack.
func TestStreamOf(t *testing.T) {
	null := int64(tracedb.Null)
	for name, want := range map[string][2]int64{
		"hipLaunchKernel": {7, 0}, "hipLaunchKernel_spt": {7, 2}, "hipModuleLaunchKernel": {8, 0}, "hipExtModuleLaunchKernel": {8, 0},
		"hipMemcpyAsync": {4, 0}, "hipMemcpy": {null, 0}, "hipMemset_spt": {null, 2}, "hipGraphLaunch": {1, 0}, "hipStreamWaitEvent": {0, 0},
		"hipMalloc": {null, null}, "hipStreamCreate": {null, null}, "hsa_memory_copy": {null, null},
	} {
		word, handle := streamOf(&function.Table()[numberOf(t, name)])
		if got := [2]int64{word, handle}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestKernelStream(t *testing.T) {
	read := written(t, []Call{
		onStack(call(t, "hipLaunchKernel", 7, 100, 199), 0, 0x7f00000012ab),
		onStack(call(t, "hipLaunchKernel", 7, 200, 299), 0, 0),
		onStack(call(t, "hipModuleLaunchKernel", 7, 300, 399), 1, 0, 1, 0, 0),
		onStack(call(t, "hipLaunchKernel_spt", 7, 400, 499), 0, 0),
		with(call(t, "hipMemcpyAsync", 7, 500, 599), 1, 2, 3, 4, 0xffffffffffffffff),
		call(t, "hipMemcpy", 7, 600, 699),
		call(t, "hipMalloc", 7, 700, 799),
		call(t, "hipModuleLaunchKernel", 7, 800, 899), // without its words on the stack
	}, []tracedb.Dispatch{
		{TID: 7, SubmitNS: 150, Launch: 1},
		{TID: 7, SubmitNS: 160, Launch: 1},
		{TID: 7, SubmitNS: 250, Launch: 1},
		{TID: 7, SubmitNS: 350, Launch: 1},
		{TID: 7, SubmitNS: 450, Launch: 1},
		{TID: 7, SubmitNS: 550, Launch: 1},
		{TID: 7, SubmitNS: 650, Launch: 1},
		{TID: 7, SubmitNS: 750, Launch: 1},
		{TID: 7, SubmitNS: 850, Launch: 1},
		{TID: 8, SubmitNS: 150, Launch: 1},
	})
	expect(t, read, "SELECT kernel_id, stream, call_id FROM kernel_stream ORDER BY 1",
		"1|139637976732331|1", "2|139637976732331|1", "3|0|2", "4|0|3", "5|2|4", "6|-1|5", "7|0|6")
}

// TestStreamDependency: a wait is for the last record of its event that began before it, by any thread.
func TestStreamDependency(t *testing.T) {
	const a, b, e, other = 0xa0, 0xb0, 0xe0, 0xe1
	read := written(t, []Call{
		with(call(t, "hipStreamWaitEvent", 7, 5, 6), b, e),
		with(call(t, "hipEventRecord", 7, 10, 20), e, a),
		failed(with(call(t, "hipEventRecord", 8, 21, 22), e, b)),
		with(call(t, "hipStreamWaitEvent", 8, 30, 40), b, e),
		with(call(t, "hipEventRecord", 8, 50, 60), e, 0),
		with(call(t, "hipEventRecord", 8, 51, 60), other, b),
		with(call(t, "hipStreamWaitEvent", 7, 70, 80), a, e),
		with(call(t, "hipEventSynchronize", 7, 90, 95), other),
		with(call(t, "hipStreamSynchronize", 7, 100, 110), a),
		with(call(t, "hipStreamWaitEvent", 7, 120, 130), 0, 0xe2),
	}, nil)
	expect(t, read, "SELECT id, pid, thread, stream, for_stream, event, record_id, record_ns, start_ns, end_ns FROM stream_dependency ORDER BY id",
		"1|42|7|176|NULL|0xe0|NULL|NULL|5|6",
		"4|42|8|176|160|0xe0|2|10|30|40",
		"7|42|7|160|0|0xe0|5|50|70|80",
		"8|42|7|NULL|176|0xe1|6|51|90|95",
		"9|42|7|NULL|160|NULL|NULL|NULL|100|110",
		"10|42|7|0|NULL|0xe2|NULL|NULL|120|130")
}

// TestGraphReplay: replays of a graph are numbered, and compared by their kernels' names.
func TestGraphReplay(t *testing.T) {
	const exec, other, stream = 0x6000, 0x7000, 0xa0
	launch := func(tid uint32, from uint64, exec uint64) Call {
		return with(call(t, "hipGraphLaunch", tid, from, from+90), exec, stream)
	}
	kernels := func(tid uint32, from uint64, launches ...uint32) (all []tracedb.Dispatch) {
		for i, l := range launches {
			all = append(all, tracedb.Dispatch{TID: tid, SubmitNS: from + uint64(i), Launch: l})
		}
		return all
	}
	var dispatches []tracedb.Dispatch
	for _, of := range [][]tracedb.Dispatch{
		kernels(7, 110, 1, 2), // a kernel is missing
		kernels(7, 210, 1, 2, 3),
		kernels(8, 310, 1, 2, 3),
		kernels(7, 410, 1, 3, 2),
		kernels(7, 510, 3),
		kernels(7, 710, 2, 2),
		kernels(7, 810, 2, 2),
	} {
		dispatches = append(dispatches, of...)
	}
	read := written(t, []Call{
		launch(7, 100, exec), launch(7, 200, exec), launch(8, 300, exec), launch(7, 400, exec), launch(7, 500, other),
		failed(launch(7, 550, exec)),
		out(call(t, "hipGraphInstantiate", 7, 600, 610), other+1),
		with(call(t, "hipGraphExecDestroy", 7, 650, 660), exec),
		out(call(t, "hipGraphInstantiate", 7, 670, 680), exec),
		launch(7, 700, exec), launch(7, 800, exec), launch(7, 900, 0x9000),
	}, dispatches)
	expect(t, read, "SELECT id, graph, exec, replay, pid, thread, stream, start_ns, end_ns, kernels, first_ns, last_ns, gpu_ns, same FROM graph_replay ORDER BY id",
		"1|1|0x6000|1|42|7|160|100|190|2|1110|1121|20|0",
		"2|1|0x6000|2|42|7|160|200|290|3|1210|1222|30|1",
		"3|1|0x6000|3|42|8|160|300|390|3|1310|1322|30|1",
		"4|1|0x6000|4|42|7|160|400|490|3|1410|1422|30|0",
		"5|5|0x7000|1|42|7|160|500|590|1|1510|1520|10|1",
		"10|10|0x6000|1|42|7|160|700|790|2|1710|1721|20|1",
		"11|10|0x6000|2|42|7|160|800|890|2|1810|1821|20|1",
		"12|12|0x9000|1|42|7|160|900|990|0|NULL|NULL|0|1")
	expect(t, read, `SELECT g.replay_id, group_concat(g.node || k.name, ' ') FROM (SELECT * FROM graph_kernel ORDER BY 1, 2) g
		JOIN kernel k ON k.id = g.kernel_id GROUP BY 1`,
		"1|1a 2b", "2|1a 2b 3c", "3|1a 2b 3c", "4|1a 2c 3b", "5|1c", "10|1b 2b", "11|1b 2b")
}
