package calls

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// stepScene has launches, waits between streams, and replays of two graphs with one handle, of which one lacks a kernel.
func stepScene(t *testing.T) string {
	const a, b, event, exec = 0xa0, 0xb0, 0xe0, 0x6000
	graph := func(from uint64) Call { return with(call(t, "hipGraphLaunch", 8, from, from+20), exec, b) }
	calls := []Call{
		onStack(call(t, "hipLaunchKernel", 7, 100, 110), 0, a),
		onStack(call(t, "hipLaunchKernel", 7, 200, 230), 0, 0),
		onStack(call(t, "hipLaunchKernel_spt", 7, 240, 250), 0, 0),
		with(call(t, "hipEventRecord", 7, 300, 310), event, a),
		with(call(t, "hipStreamWaitEvent", 8, 320, 330), b, event),
		with(call(t, "hipStreamWaitEvent", 7, 340, 350), a, event), // its own
		with(call(t, "hipStreamWaitEvent", 7, 360, 370), a, 0xe1),  // never recorded
		graph(400), graph(500), graph(600),
		with(call(t, "hipGraphExecDestroy", 7, 650, 660), exec),
		graph(700),
		failed(graph(800)),
	}
	var dispatches []tracedb.Dispatch
	for _, k := range []struct {
		tid    uint32
		at     uint64
		launch uint32
	}{
		{7, 105, 1}, {7, 205, 1}, {7, 245, 1}, {7, 255, 1}, // the last one in no call
		{8, 401, 1}, {8, 501, 1}, {8, 502, 2}, {8, 601, 1}, {8, 602, 2}, {8, 701, 3},
	} {
		dispatches = append(dispatches, tracedb.Dispatch{TID: k.tid, SubmitNS: k.at, Launch: k.launch})
	}
	_, path := writtenTo(t, calls, dispatches)
	return path
}

// readReport returns HIP's section.
func readReport(t *testing.T, path string, window traceread.Span) (*Report, []kind.Line) {
	t.Helper()
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer tr.Close()
	section, err := HIPRuntime.Read(&kind.Reading{Ctx: t.Context(), Trace: tr, Window: window})
	must(t, err)
	return section.Value.(*Report), section.Lines
}

func TestReportOfSteps(t *testing.T) {
	c, lines := readReport(t, stepScene(t), traceread.Always)
	if want := (&Launches{Calls: 8, MeanNS: 18, P99NS: 30, Kernels: 9, Started: 7, StartP50NS: 1001, StartP99NS: 1005}); !near(c.Launches, want) {
		t.Errorf("%+v, want %+v", c.Launches, want)
	}
	var streams [][4]int64
	for _, s := range c.Streams {
		streams = append(streams, [...]int64{s.PID, s.Stream, s.Thread, s.Kernels})
	}
	if want := [][4]int64{{42, 0xb0, 0, 6}, {42, 0, 0, 1}, {42, 2, 7, 1}, {42, 0xa0, 0, 1}}; !slices.Equal(streams, want) || c.StreamsInAll != 4 {
		t.Errorf("%v, want %v", streams, want)
	}
	if want := []StreamWait{{PID: 42, Stream: 0xb0, For: 0xa0, Calls: 1, session: 1}}; !slices.Equal(c.StreamWaits, want) || c.WaitsInAll != 1 {
		t.Errorf("%+v, want %+v", c.StreamWaits, want)
	}
	var graphs []Graph
	for _, g := range c.Graphs {
		g.key, g.sequences, g.totalNS = graphKey{}, nil, 0
		graphs = append(graphs, g)
	}
	if want := []Graph{
		{PID: 42, Exec: "0x6000", Replays: 3, Different: 1, Kernels: 2, GPUNS: 50, MeanNS: 10, MaxNS: 11},
		{PID: 42, Exec: "0x6000", Replays: 1, Kernels: 1, GPUNS: 10, MeanNS: 10, MaxNS: 10},
	}; !reflect.DeepEqual(graphs, want) {
		t.Errorf("%+v, want %+v", graphs, want)
	}
	if i := slices.IndexFunc(lines, func(l kind.Line) bool { return l.Label == "Graphs" }); i < 0 ||
		lines[i+1].Text != "graph 0x6000: 3 replays of 2 kernels, 50 ns on the GPU, mean 10 ns, max 11 ns; 1 with other kernels, or in another order" {
		t.Errorf("%q", lines)
	}
}

// near compares launches, whose percentiles are right to 0.4 %.
func near(got, want *Launches) bool {
	if got == nil || max(got.StartP50NS-want.StartP50NS, want.StartP50NS-got.StartP50NS) > want.StartP50NS/250+1 ||
		max(got.StartP99NS-want.StartP99NS, want.StartP99NS-got.StartP99NS) > want.StartP99NS/250+1 {
		return false
	}
	one := *got
	one.StartP50NS, one.StartP99NS = want.StartP50NS, want.StartP99NS
	return one == *want
}

// The window cuts by the calls' begins.
func TestReportOfStepsInWindow(t *testing.T) {
	c, _ := readReport(t, stepScene(t), traceread.Span{BeginNS: 450, EndNS: 620})
	if c.Launches == nil || c.Launches.Calls != 2 || c.Launches.Kernels != 4 || c.StreamsInAll != 1 || c.WaitsInAll != 0 ||
		c.GraphsInAll != 1 || c.Graphs[0].Replays != 2 || c.Graphs[0].Different != 0 {
		t.Errorf("%+v", c)
	}
}

// A trace of an older version does not have the streams.
func TestReportWithoutStreams(t *testing.T) {
	path := stepScene(t)
	change(t, path, "DROP VIEW call_stream; DROP VIEW kernel_stream; DROP VIEW stream_dependency; DROP VIEW graph_replay; ALTER TABLE rtl_function DROP COLUMN stream_word")
	c, _ := readReport(t, path, traceread.Always)
	if c.Calls != 13 || c.Launches != nil || c.Streams != nil || c.Graphs != nil {
		t.Errorf("%+v", c)
	}
}
