package export

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// callsAt is when the sample's calls begin.
const callsAt = 300 * day

// callSample is a trace with a kernel and calls: a launch in which the kernel was submitted, on a
// thread; an allocation that failed; a call of HSA inside of it; a call of an unknown thread.
func callSample(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1, ThreadName: func(uint32) string { return "py\x1b" }})
	must(t, err)
	call := func(name string, tid uint32, fromNS, untilNS, result uint64, registers ...uint64) calls.Call {
		number, known := function.Named(name)
		if !known {
			t.Fatalf("no function %s", name)
		}
		c := calls.Call{StartNS: callsAt + fromNS, EndNS: callsAt + untilNS, TID: tid, Function: uint16(number), Result: result}
		copy(c.Registers[:], registers)
		return c
	}
	store := func(id ring.Kind, all ...calls.Call) error {
		return s.Kind(len(all), func(w tracedb.KindWriter) error { return calls.Store(w, id, all) })
	}
	must(t, errors.Join(
		s.Agent(tracedb.Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}),
		s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "k.kd"}),
		s.Dispatches([]tracedb.Dispatch{{Queue: 1, Launch: 1, TID: 11, StartNS: callsAt + 500, EndNS: callsAt + 600, SubmitNS: callsAt + 250}}),
		store(ring.KindHIPRuntimeAPI, call("hipMalloc", 11, 100, 200, 1, 0x7000, 4096), call("hipLaunchKernel", 11, 210, 300, 0, 0x5000), call("hipStreamSynchronize", 0, 220, 400, 0)),
		store(ring.KindHSACoreAPI, call("hsa_system_get_info", 11, 110, 120, 0, 2, 0x8000)),
		s.End(tracedb.End{Reason: "detached", ArmedNS: callsAt, DetachedNS: callsAt + 1000, Kinds: []tracedb.KindCoverage{
			{Kind: "hip-runtime-api", Begun: 4, Timed: 3, Unexplained: 1}, {Kind: "hsa-core-api", Begun: 1, Timed: 1},
		}}),
		db.Close()))
	return path
}

func TestCallCSV(t *testing.T) {
	data, r := exported(t, "csv-hip", callSample(t))
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	must(t, err)
	if got := strings.Join(lines[0][:7], ","); got != "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp" {
		t.Error(got)
	}
	var got []string
	for _, line := range lines[1:] {
		got = append(got, strings.Join(slices.Delete(slices.Clone(line), 4, 7), "|"))
	}
	if len(got) != 3 || !strings.HasPrefix(got[0], "HIP_RUNTIME_API|hipMalloc|41220|11|hipErrorInvalidValue|ptr=0x7000, size=") || !strings.HasPrefix(got[2], "HIP_RUNTIME_API|hipStreamSynchronize|41220|0|") {
		t.Errorf("%q", got)
	}
	if start, end := lines[1][5], lines[1][6]; start != fmt.Sprint(callsAt+100) || end != fmt.Sprint(callsAt+200) {
		t.Errorf("%s to %s", start, end)
	}
	if r.of(calls.HIPRuntime).Written != 3 || !strings.Contains(strings.Join(r.Warnings(Formats[0]), "\n"), "3 of 4 HIP calls timed") {
		t.Errorf("%+v, %q", r, r.Warnings(Formats[0]))
	}
	if data, _ = exported(t, "csv-hsa", callSample(t)); strings.Count(string(data), "\n") != 2 || !strings.Contains(string(data), `"HSA_CORE_API","hsa_system_get_info",41220,11,`) {
		t.Errorf("%s", data)
	}
}

func TestCallsInRocprof(t *testing.T) {
	data, _ := exported(t, "rocprofv3", callSample(t))
	type record struct {
		Kind, Operation int64
		Correlation     struct{ Internal int64 } `json:"correlation_id"`
		Thread          int64                    `json:"thread_id"`
		Start           int64                    `json:"start_timestamp"`
		End             int64                    `json:"end_timestamp"`
	}
	var got struct {
		Tools []struct {
			Strings struct {
				Records []struct {
					Kind       string
					Operations []string
				} `json:"buffer_records"`
			}
			Records struct {
				Kernels []record `json:"kernel_dispatch"`
				HIP     []record `json:"hip_api"`
				HSA     []record `json:"hsa_api"`
			} `json:"buffer_records"`
		} `json:"rocprofiler-sdk-tool"`
	}
	must(t, json.Unmarshal(data, &got))
	tool := got.Tools[0]
	var names []string
	for _, r := range append(tool.Records.HIP, tool.Records.HSA...) {
		of := tool.Strings.Records[r.Kind]
		names = append(names, of.Kind+" "+of.Operations[r.Operation])
	}
	if want := []string{
		"HIP_RUNTIME_API hipMalloc", "HIP_RUNTIME_API hipLaunchKernel", "HIP_RUNTIME_API hipStreamSynchronize", "HSA_CORE_API hsa_system_get_info",
	}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	launch, kernel := tool.Records.HIP[1], tool.Records.Kernels[0]
	if launch.Kind != 5 || launch.Thread != 11 || launch.Start != callsAt+210 || launch.End != callsAt+300 {
		t.Errorf("%+v", launch)
	}
	if launch.Correlation != kernel.Correlation || tool.Records.HIP[0].Correlation == kernel.Correlation {
		t.Errorf("%+v or %+v is linked to %+v", launch, tool.Records.HIP[0], kernel)
	}
}

func TestCallsInChrome(t *testing.T) {
	data, _ := exported(t, "chrome", callSample(t))
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	var got struct {
		TraceEvents []struct {
			Ph, Cat, Name string
			TID           int64
			Args          map[string]any
		}
	}
	must(t, json.NewDecoder(zip).Decode(&got))
	rows := map[int64]string{}
	var made []string
	for _, e := range got.TraceEvents {
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			rows[e.TID] = e.Args["name"].(string)
		case e.Cat == "hip_api" || e.Cat == "hsa_api":
			made = append(made, rows[e.TID]+": "+e.Name)
			if _, has := e.Args["size"]; has != (e.Name == "hipMalloc") || has && e.Args["result"] != "hipErrorInvalidValue" {
				t.Errorf("%s: %v", e.Name, e.Args)
			}
		}
	}
	if want := []string{
		`HIP calls of thread 11 (py\x1b): hipMalloc`, `HIP calls of thread 11 (py\x1b): hipLaunchKernel`,
		"HIP calls of unknown threads: hipStreamSynchronize", `HSA calls of thread 11 (py\x1b): hsa_system_get_info`,
	}; !slices.Equal(made, want) {
		t.Errorf("%q", made)
	}
}

// The rows of a thread are together, and so are those of a GPU.
func TestRowsInChrome(t *testing.T) {
	data, _ := exported(t, "chrome", callSample(t))
	zip, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	var got struct {
		TraceEvents []struct {
			Ph, Name string
			TID      int64
			Args     struct {
				Name     string
				Position int32 `json:"sort_index"`
			}
		}
	}
	must(t, json.NewDecoder(zip).Decode(&got))
	names, positions := map[int64]string{}, map[string]int32{}
	for _, e := range got.TraceEvents {
		switch e.Name {
		case "thread_name":
			names[e.TID] = e.Args.Name
		case "thread_sort_index":
			positions[names[e.TID]] = e.Args.Position
		}
	}
	rows := slices.SortedFunc(maps.Keys(positions), func(a, b string) int { return cmp.Compare(positions[a], positions[b]) })
	if want := []string{
		"HIP calls of unknown threads", `py\x1b`, `HIP calls of thread 11 (py\x1b)`, `HSA calls of thread 11 (py\x1b)`, "GPU 0 queue 1 (hwq 0x0): coverage", "GPU 0 queue 1 (hwq 0x0)",
	}; !slices.Equal(rows, want) {
		t.Errorf("%q", rows)
	}
}

// Positions are numbers of 31 bits in any trace, and those of threads are before those of GPUs.
func TestPositions(t *testing.T) {
	extremes := []int64{math.MinInt64, -1, 0, 1, 4_194_304, firstRow - 1, firstRow, math.MaxInt64}
	for _, a := range extremes {
		for _, n := range []int64{0, 5, math.MaxInt64} {
			if at := ofThread(a, n); at < ofThreads || at >= ofGPUs {
				t.Errorf("thread %d, %d: %d", a, n, at)
			}
			if at := ofGPU(a, 4, n); at < ofGPUs || at > math.MaxInt32 {
				t.Errorf("GPU %d, %d: %d", a, n, at)
			}
		}
	}
}

func TestCallsInPerfetto(t *testing.T) {
	data, _ := exported(t, "pftrace", callSample(t))
	names, begun := map[number]string{}, map[string]int{}
	for _, packet := range decodePerfetto(t, data) {
		for _, n := range packet.InternedData.EventNames {
			names[n.IID] = n.Name
		}
		if e := packet.TrackEvent; e != nil && e.Type == typeBegin {
			begun[fmt.Sprintf("%s at %d", names[e.NameIID], packet.Timestamp-callsAt)]++
		}
	}
	for _, want := range []string{"hipMalloc at 100", "hipLaunchKernel at 210", "hipStreamSynchronize at 220", "hsa_system_get_info at 110"} {
		if begun[want] != 1 {
			t.Errorf("%s: %d times; %v", want, begun[want], begun)
		}
	}
}

// What no recorder writes is left out, and said.
func TestImpossibleCalls(t *testing.T) {
	path := callSample(t)
	change(t, path, "UPDATE rtl_call SET duration_ns = -1 WHERE id = 1; UPDATE rtl_call SET session_id = 77 WHERE id = 2")
	for _, f := range Formats {
		if !f.Streams() || f.Name == "csv" || f.isIdle() || len(f.kinds) > 0 && !slices.Contains(f.kinds, calls.HIPRuntime) {
			continue
		}
		if _, r := exported(t, f.Name, path); r.of(calls.HIPRuntime).Written != 1 || r.of(calls.HIPRuntime).LeftOut != 2 {
			t.Errorf("%s: %+v", f.Name, r.of(calls.HIPRuntime))
		}
	}
	if _, r := makeRPD(t, path); r.of(calls.HIPRuntime).Written != 1 || r.of(calls.HIPRuntime).LeftOut != 2 || r.of(calls.HSACore).Written != 1 {
		t.Errorf("rpd: %+v", r)
	}
}

// A function that this version does not know has words for arguments.
func TestUnknownFunction(t *testing.T) {
	path := callSample(t)
	change(t, path, "UPDATE rocpd_string SET string = 'hipNew' || char(27) WHERE string = 'hipMalloc'")
	data, _ := exported(t, "csv-hip", path)
	if !strings.Contains(string(data), `"HIP_RUNTIME_API","hipNew\x1b",41220,11,`) || !strings.Contains(string(data), `"1","word0=0x7000, word1=0x1000`) {
		t.Errorf("%s", data)
	}
}

// What rocmProfileData's readers ask of API calls.
func TestCallsInRPD(t *testing.T) {
	db, r := makeRPD(t, callSample(t))
	if r.of(calls.HIPRuntime).Written != 3 || r.of(calls.HIPRuntime).LeftOut != 0 || r.Dispatches != 1 || r.LeftOut != 0 {
		t.Errorf("%+v", r)
	}
	got := dump(t, db, `SELECT d.string, n.string, a.pid, a.tid, a.start - 300 * 86400000000000, a.end - a.start, substr(g.string, 1, 12)
		FROM rocpd_api a JOIN rocpd_string n ON n.id = a.apiName_id JOIN rocpd_string g ON g.id = a.args_id JOIN rocpd_string d ON d.id = a.domain_id ORDER BY a.id`)
	if len(got) != 4 || got[0] != "HIP_RUNTIME_API|hipMalloc|41220|11|100|100|ptr=0x7000, |" || !strings.HasPrefix(got[3], "HSA_CORE_API|hsa_system_get_info|41220|11|110|10|") {
		t.Errorf("%q", got)
	}
	if n := dump(t, db, "SELECT count(*) FROM rocpd_op"); n[0] != "1|" {
		t.Errorf("operations: %v", n)
	}
}
