package export

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A linked trace has calls, kernels and copies; times count from callsAt.
type linked struct {
	calls   []linkedCall
	kernels []linkedItem
	copies  []linkedItem
}

type linkedCall struct {
	tid         uint32
	from, until uint64
	stream      uint64
}

type linkedItem struct {
	tid    uint32
	submit uint64
}

func (l linked) write(t testing.TB) (path string) {
	t.Helper()
	db, path := create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	must(t, err)
	must(t, errors.Join(
		s.Agent(tracedb.Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}),
		s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "k.kd"})))
	copyAsync, _ := function.Named("hipMemcpyAsync")
	var batch []calls.Call
	for _, c := range l.calls {
		one := calls.Call{StartNS: callsAt + c.from, EndNS: callsAt + c.until, TID: c.tid, Function: uint16(copyAsync)}
		one.Registers[4] = c.stream
		batch = append(batch, one)
	}
	var moved []copies.Copy
	for i, c := range l.copies {
		start := callsAt + 200_000 + uint64(i%7)*100
		moved = append(moved, copies.Copy{
			SubmitNS: callsAt + c.submit, StartNS: start, EndNS: start + 50, Bytes: 8, To: 1, TID: c.tid, Direction: uint16(copies.HostToDevice),
		})
	}
	for i, k := range l.kernels {
		start := callsAt + 100_000 + uint64(i)*10
		must(t, s.Dispatches([]tracedb.Dispatch{{Queue: 1, Launch: 1, TID: k.tid, SubmitNS: callsAt + k.submit, StartNS: start, EndNS: start + 5}}))
	}
	must(t, errors.Join(
		s.Kind(len(batch), func(w tracedb.KindWriter) error { return calls.Store(w, ring.KindHIPRuntimeAPI, batch) }),
		s.Kind(len(moved), func(w tracedb.KindWriter) error { return copies.Store(w, moved) }),
		s.End(tracedb.End{Reason: "detached", ArmedNS: callsAt, DetachedNS: callsAt + 300_000}), db.Close()))
	return path
}

// few is one thread's calls, of which one is in another, and what they submit.
var few = linked{
	calls: []linkedCall{{11, 100, 200, 0}, {11, 300, 900, 0}, {11, 400, 500, 0}, {12, 101, 900, 0}, {0, 1, 9000, 0}},
	kernels: []linkedItem{
		{11, 50}, {11, 100}, {11, 200}, {11, 250}, {11, 350}, {11, 450}, {11, 600}, {11, 1000}, {12, 450}, {13, 450}, {0, 450}, {11, 0},
	},
	copies: []linkedItem{{11, 150}, {11, 250}, {12, 150}, {0, 150}},
}

// TestLinks: a kernel belongs to the call of its thread that began last, unless that has ended.
// Whatever a trace has, an export ends, and no kernel gets lost.
func TestLinks(t *testing.T) {
	want := map[int64]int64{2: 1, 3: 1, 5: 2, 6: 3, 9: 4}
	without := func(rows ...int64) map[int64]int64 {
		less := maps.Clone(want)
		for _, r := range rows {
			delete(less, r)
		}
		return less
	}
	with := func(kernel, call int64, less map[int64]int64) map[int64]int64 {
		less[kernel] = call
		return less
	}
	const latest = "9223372036854775807"
	for name, c := range map[string]struct {
		sql   string
		links map[int64]int64
	}{
		"sound":                     {"", want},
		"no calls":                  {"DELETE FROM rtl_call", map[int64]int64{}},
		"no functions":              {"DELETE FROM rtl_function", map[int64]int64{}},
		"of HSA":                    {"UPDATE rocpd_string SET string = 'hsa-core-api' WHERE string = 'hip-runtime-api'", map[int64]int64{}},
		"threads that are NULL":     {"UPDATE rtl_call SET thread_id = NULL; UPDATE rtl_context SET thread_id = NULL", map[int64]int64{}},
		"threads that are missing":  {"DELETE FROM rtl_thread WHERE tid = 11", map[int64]int64{9: 4}},
		"of another session":        {"UPDATE rtl_call SET session_id = 9 WHERE id = 1", without(2, 3)},
		"a negative duration":       {"UPDATE rtl_call SET duration_ns = -1 WHERE id = 3", with(6, 2, with(7, 2, maps.Clone(want)))},
		"a negative start":          {"UPDATE rtl_call SET start_ns = -5 WHERE id = 1", without(2, 3)},
		"the latest duration":       {"UPDATE rtl_call SET duration_ns = " + latest + " WHERE id = 1", without(2, 3)},
		"a submit before all":       {"UPDATE rtl_execution SET queued_ns = " + latest + " WHERE id = 6", without(6)},
		"a submit after all":        {"UPDATE rtl_execution SET queued_ns = -" + latest + " WHERE id = 6", without(6)},
		"overlapping calls":         {"UPDATE rtl_call SET duration_ns = 400 WHERE id = 1; UPDATE rtl_call SET duration_ns = 500 WHERE id = 3", with(4, 1, with(7, 3, maps.Clone(want)))},
		"an id below 1":             {"UPDATE rtl_call SET id = -5000 WHERE id = 1", without(2, 3)},
		"a duration that is a text": {"UPDATE rtl_call SET duration_ns = 'x' WHERE id = 4", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := few.write(t)
			change(t, path, c.sql)
			for format, links := range linksIn {
				if c.links == nil {
					f, _ := FormatNamed(format)
					if _, err := f.Write(t.Context(), path, filepath.Join(t.TempDir(), "out"), 0); err == nil && format != "csv" && format != "rpd" {
						t.Errorf("%s: not refused", format)
					}
					continue
				}
				if got := links(t, path); !maps.Equal(got, c.links) {
					t.Errorf("%s: %v, expected %v", format, got, c.links)
				}
			}
		})
	}
}

// TestCopyLinks: a copy has the correlation id of the call that submitted it.
func TestCopyLinks(t *testing.T) {
	path := few.write(t)
	want := map[int64]int64{0: 1, 200: 4} // by their starts
	data, _ := exported(t, "csv-copies", path)
	from := func(links map[int64]int64) map[int64]int64 {
		relative := map[int64]int64{}
		for at, call := range links {
			relative[at-callsAt-200_000] = call
		}
		return relative
	}
	if got := from(columnsOf(t, data, "Start_Timestamp", "Correlation_Id")); !maps.Equal(got, want) {
		t.Errorf("csv-copies: %v", got)
	}
	links := map[int64]int64{}
	_, moved := correlatedIn(t, path)
	for _, c := range moved {
		if call := callRow(c.Correlation.Internal); call > 0 {
			links[c.Start] = call
		}
	}
	if got := from(links); len(moved) != 4 || !maps.Equal(got, want) {
		t.Errorf("rocprofv3: %v", got)
	}
	rows := map[int64]int64{1: 1, 3: 4}
	if got := arrowsInChrome(t, path, "submit memory copy"); !maps.Equal(got, rows) {
		t.Errorf("chrome: %v", got)
	}
	if got := flowsInPerfetto(t, path, 1+slices.Index(all.Kinds, copies.Kind)); !maps.Equal(got, rows) {
		t.Errorf("pftrace: %v", got)
	}
	db, r := makeRPD(t, path)
	if r.of(copies.Kind).Written != 4 || r.of(copies.Kind).LeftOut != 0 || r.Dispatches != int64(len(few.kernels)) {
		t.Errorf("%+v", r)
	}
	got := dump(t, db, `SELECT n.string, a.start - 25920000000000000, count(*) FROM rocpd_op o JOIN rocpd_string y ON y.id = o.opType_id AND y.string LIKE 'Copy%'
		JOIN rocpd_api_ops l ON l.op_id = o.id JOIN rocpd_api a ON a.id = l.api_id JOIN rocpd_string n ON n.id = a.apiName_id GROUP BY 1, 2 ORDER BY 1, 2`)
	if want := []string{"hipMemcpyAsync|100|1|", "hipMemcpyAsync|101|1|", "hsa_amd_memory_async_copy|150|1|", "hsa_amd_memory_async_copy|250|1|"}; !slices.Equal(got, want) {
		t.Errorf("rpd: %q", got)
	}
}

// TestStreams: with the calls of HIP, rocprofv3's formats have numbers of HIP streams, in the order in which
// they come; a handle is a stream of one process, and that of hipStreamPerThread one of each thread.
func TestStreams(t *testing.T) {
	l := linked{calls: []linkedCall{{11, 100, 199, 0x55aa00}, {11, 200, 299, 0}, {11, 300, 399, 2}, {12, 100, 199, 2}, {12, 200, 299, 1}, {12, 300, 399, 0x55aa00}}}
	for i := range uint64(3) {
		l.kernels = append(l.kernels, linkedItem{11, 150 + i*100}, linkedItem{12, 150 + i*100}, linkedItem{13, 150})
	}
	want := map[int64]int64{1: 1, 2: 2, 4: 3, 5: 3, 7: 4, 8: 1, 3: 0, 6: 0, 9: 0}
	check := func(path string, want map[int64]int64) {
		t.Helper()
		data, _ := exported(t, "csv", path)
		if got := columnOf(t, data, "Dispatch_Id", "Stream_Id"); !maps.Equal(got, want) {
			t.Errorf("csv: %v, expected %v", got, want)
		}
		kernels, _ := correlatedIn(t, path)
		got := map[int64]int64{}
		for _, k := range kernels {
			got[k.Info.ID] = k.Stream.Handle
		}
		if !maps.Equal(got, want) {
			t.Errorf("rocprofv3: %v, expected %v", got, want)
		}
	}
	path := l.write(t)
	check(path, want)
	change(t, path, "UPDATE rtl_call SET arguments = x'00' WHERE id = 1")
	check(path, map[int64]int64{1: 0, 2: 1, 4: 2, 5: 2, 7: 3, 8: 4, 3: 0, 6: 0, 9: 0})
	change(t, path, "DROP VIEW call_stream; DROP VIEW kernel_stream; DROP VIEW stream_dependency; DROP VIEW graph_replay; ALTER TABLE rtl_function DROP COLUMN stream_word")
	queue := map[int64]int64{}
	for id := range want {
		queue[id] = 1
	}
	check(path, queue)
}

// TestLinksAreTheViews: exports and SQL agree.
func TestLinksAreTheViews(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l linked
	for i := range uint64(3 * batchRows) {
		from := 1 + i*20 + random.Uint64N(20)
		l.calls = append(l.calls, linkedCall{uint32(11 + random.IntN(3)), from, from + 1 + random.Uint64N(100), 0})
		l.kernels = append(l.kernels, linkedItem{uint32(11 + random.IntN(4)), 1 + random.Uint64N(3*batchRows*20)})
	}
	random.Shuffle(len(l.calls), func(i, j int) { l.calls[i], l.calls[j] = l.calls[j], l.calls[i] })
	path := l.write(t)
	want := pairs(t, path, "SELECT kernel_id, call_id FROM call_kernel")
	if n := pairs(t, path, "SELECT 0, count(DISTINCT call_id) FROM call_kernel")[0]; len(want) < batchRows || n == int64(len(want)) {
		t.Fatalf("%d kernels of %d calls", len(want), n)
	}
	for format, links := range linksIn {
		if got := links(t, path); !maps.Equal(got, want) {
			t.Errorf("%s: %d links of %d", format, len(got), len(want))
		}
	}
}

// TestManyKernelsOfACall: the kernels of one call are as many as a trace says.
func TestManyKernelsOfACall(t *testing.T) {
	l := linked{calls: []linkedCall{{11, 100, 900, 0}}, kernels: slices.Repeat([]linkedItem{{11, 500}}, 100)}
	path := l.write(t)
	for format, links := range linksIn {
		if got := links(t, path); len(got) != 100 || got[100] != 1 {
			t.Errorf("%s: %d links", format, len(got))
		}
	}
	db, _ := makeRPD(t, path)
	if got := dump(t, db, "SELECT count(*) FROM rocpd_kernelapi"); got[0] != "0|" {
		t.Errorf("%s details of kernels for one call", got[0])
	}
}

// TestCorrelationInChrome: the arguments of kernels and of calls of HIP have the same correlation ids, and times in ns; without
// calls there are none.
func TestCorrelationInChrome(t *testing.T) {
	path := few.write(t)
	correlations := func() (kernels map[int64]int64, ofCalls map[int64]bool) {
		kernels, ofCalls = map[int64]int64{}, map[int64]bool{}
		data, _ := exported(t, "chrome", path)
		zip, err := gzip.NewReader(bytes.NewReader(data))
		must(t, err)
		var got struct {
			TraceEvents []struct {
				Cat  string
				Args struct {
					Dispatch int64
					Corr     int64 `json:"corr_id"`
					Begin    int64 `json:"begin_ns"`
					End      int64 `json:"end_ns"`
					Delta    int64 `json:"delta_ns"`
					Agent    string
				} `json:"args"`
			}
		}
		must(t, json.NewDecoder(zip).Decode(&got))
		for _, e := range got.TraceEvents {
			a := e.Args
			switch {
			case a.Corr == 0:
				continue
			case e.Cat == "kernel":
				kernels[a.Dispatch] = a.Corr
			case e.Cat == "hip_api":
				ofCalls[a.Corr] = true
			}
			if a.End-a.Begin != a.Delta || a.Begin == 0 || (a.Agent != "") != (e.Cat == "kernel") {
				t.Errorf("%s: %+v", e.Cat, a)
			}
		}
		return kernels, ofCalls
	}
	kernels, ofCalls := correlations()
	want := map[int64]int64{}
	for kernel, call := range map[int64]int64{2: 1, 3: 1, 5: 2, 6: 3, 9: 4} {
		want[kernel] = calls.CorrelationID(call)
		if !ofCalls[want[kernel]] {
			t.Errorf("no call has the id of kernel %d", kernel)
		}
	}
	if !maps.Equal(kernels, want) {
		t.Errorf("%v, want %v", kernels, want)
	}
	change(t, path, "DELETE FROM rtl_call")
	if kernels, ofCalls := correlations(); len(kernels)+len(ofCalls) > 0 {
		t.Errorf("without calls: %v, %v", kernels, ofCalls)
	}
}
