package export

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// idleOf returns the idle time of all GPUs by the report.
func idleOf(t *testing.T, path string) (ns int64) {
	t.Helper()
	r, err := report.Make(path, report.Options{})
	must(t, err)
	for _, g := range r.GPUs {
		ns += g.IdleNS
	}
	return ns
}

func TestFolded(t *testing.T) {
	path := tracetest.WriteThreads(t)
	data, r := exported(t, "folded", path)
	sum := int64(0)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, line := range lines {
		at := strings.LastIndexByte(line, ' ')
		ns, err := strconv.ParseInt(line[at+1:], 10, 64)
		must(t, err)
		sum += ns
	}
	if sum != idleOf(t, path) || int64(len(lines)) != r.Causes || r.Unanswered {
		t.Errorf("%d ns in %d lines, want %d ns; %+v", sum, len(lines), idleOf(t, path), r)
	}
	const want = "GPU 0;engine 2983;Engine.step (engine.py:90);Engine.wait_for_tokens (engine.py:77);Condition.wait (threading.py:327);pthread_cond_wait;[blocked: futex] 35720000"
	if !slices.Contains(lines, want) {
		t.Errorf("not there: %s\n%s", want, data)
	}
	checkHarmless(t, data)
}

func TestPprof(t *testing.T) {
	path := tracetest.WriteThreads(t)
	output := filepath.Join(t.TempDir(), "idle.pb.gz")
	f, _ := FormatNamed("pprof")
	_, err := f.Write(t.Context(), path, output, 0)
	must(t, err)
	p, err := profile.Parse(bytes.NewReader(readFile(t, output)))
	must(t, err)
	must(t, p.CheckValid())
	sum, leaves := int64(0), map[string]int64{}
	for _, s := range p.Sample {
		sum += s.Value[0]
		leaves[s.Location[0].Line[0].Function.Name] += s.Value[0]
		if s.Label["gpu"][0] != "0" {
			t.Errorf("%+v", s.Label)
		}
	}
	if sum != idleOf(t, path) || leaves["[blocked: gil]"] != 7_200_000 || leaves["[blocked: sleep]"] != 9_000_000 {
		t.Errorf("%d ns, want %d; %v", sum, idleOf(t, path), leaves)
	}
	goTool, err := exec.LookPath("go")
	must(t, err)
	out, err := exec.Command(goTool, "tool", "pprof", "-top", "-unit=ms", output).Output()
	if err != nil || !strings.Contains(string(out), "[blocked: futex]") || !strings.Contains(string(out), "Engine.step") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSpeedscope(t *testing.T) {
	path := tracetest.WriteThreads(t)
	data, _ := exported(t, "speedscope", path)
	checkHarmless(t, data)
	var got speedscopeFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	must(t, d.Decode(&got))
	if got.Schema != "https://www.speedscope.app/file-format-schema.json" || len(got.Profiles) != 2 {
		t.Errorf("%+v", got)
	}
	sum := int64(0)
	for _, p := range got.Profiles {
		weights := int64(0)
		for i, stack := range p.Samples {
			weights += p.Weights[i]
			for _, at := range stack {
				if at < 0 || at >= len(got.Shared.Frames) {
					t.Errorf("%s: no frame %d", p.Name, at)
				}
			}
		}
		if p.Type != "sampled" || p.Unit != "nanoseconds" || len(p.Samples) != len(p.Weights) || p.EndValue-p.StartValue != weights {
			t.Errorf("%+v", p)
		}
		sum += weights
	}
	if sum != idleOf(t, path) {
		t.Errorf("%d ns, want %d", sum, idleOf(t, path))
	}
}

// A stack whose outer part is missing has a root that says so.
func TestIdleCutStacks(t *testing.T) {
	path := tracetest.WriteThreads(t)
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	_, err = db.Exec("UPDATE rtl_cpu_stack SET cut = 1 WHERE parent_id IS NULL")
	must(t, err)
	must(t, db.Close())
	data, _ := exported(t, "folded", path)
	if !strings.Contains(string(data), "GPU 0;engine 2983;[not known];Engine.step (engine.py:90);") {
		t.Errorf("%s", data)
	}
	data, _ = exported(t, "speedscope", path)
	var got speedscopeFile
	must(t, json.Unmarshal(data, &got))
	if p := got.Profiles[0]; got.Shared.Frames[p.Samples[0][0]].Name != unknownRoot.name {
		t.Errorf("%+v", got.Shared.Frames)
	}
	f, _ := FormatNamed("pprof")
	output := filepath.Join(t.TempDir(), "idle.pb.gz")
	_, err = f.Write(t.Context(), path, output, 0)
	must(t, err)
	p, err := profile.Parse(bytes.NewReader(readFile(t, output)))
	must(t, err)
	if s := p.Sample[0]; s.Location[len(s.Location)-1].Line[0].Function.Name != unknownRoot.name {
		t.Errorf("%+v", s)
	}
}

// Without what threads did, the formats have the causes that are known, and say what is missing.
func TestIdleUnanswered(t *testing.T) {
	path := sample(t)
	for _, name := range []string{"pprof", "folded", "speedscope"} {
		f, _ := FormatNamed(name)
		r, err := f.Write(t.Context(), path, filepath.Join(t.TempDir(), "out"), 0)
		must(t, err)
		if !r.Unanswered || r.Causes == 0 || !strings.Contains(strings.Join(r.Warnings(f), "\n"), "--sample cpu:99 --sched") {
			t.Errorf("%s: %+v %q", name, r, r.Warnings(f))
		}
	}
}

// TestPerfettoThreads: states of threads are slices that do not overlap, and samples have stacks that a reader finds.
func TestPerfettoThreads(t *testing.T) {
	data, _ := exported(t, "pftrace", tracetest.WriteThreads(t))
	packets := decodePerfetto(t, data)
	frames, stacks := map[number]number{}, map[number][]number{}
	functions, samples := map[number]string{}, map[string]int{}
	for _, p := range packets {
		if p.Sequence != sampleSequence {
			continue
		}
		for _, f := range p.InternedData.FunctionNames {
			functions[f.IID] = string(f.Str)
		}
		for _, f := range p.InternedData.Frames {
			frames[f.IID] = f.FunctionNameID
		}
		for _, c := range p.InternedData.Callstacks {
			stacks[c.IID] = c.FrameIDs
		}
		if s := p.PerfSample; s != nil {
			stack := stacks[s.CallstackIID]
			samples[functions[frames[stack[len(stack)-1]]]]++
			if p.Timestamp == 0 || s.PID != 2981 || s.TID != tracetest.EngineThread && s.TID != tracetest.TokenizerThread || s.CPUMode != modeUser {
				t.Errorf("%+v", p)
			}
		}
	}
	if samples["Scheduler.schedule (engine.py:48)"] != 60 || samples["cwork"] != 100 || samples["Tokenizer.encode (engine.py:55)"] != 10 {
		t.Errorf("%v", samples)
	}
	v := viewPerfetto(t, data)
	states := v.slices[v.byName["engine 2983: state"]]
	if len(states) < 100 {
		t.Fatalf("%d states", len(states))
	}
	sums := map[string]number{}
	for i, s := range states {
		sums[s.name] += s.end - s.begin
		if i > 0 && s.begin < states[i-1].end {
			t.Errorf("%+v overlaps %+v", s, states[i-1])
		}
	}
	if sums["blocked: futex"] != 20*5_800_000 || sums["blocked: gil"] != 10*800_000 || sums["blocked: sleep"] != 10*900_000 || sums["ready"] != 20*100_000 {
		t.Errorf("%v", sums)
	}
}

// TestChromeThreads: the states are slices of a row of their own.
func TestChromeThreads(t *testing.T) {
	data, _ := exported(t, "chrome", tracetest.WriteThreads(t))
	var got struct {
		TraceEvents []struct {
			Cat, Name string
			Dur       float64
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	must(t, json.NewDecoder(z).Decode(&got))
	sums := map[string]float64{}
	for _, e := range got.TraceEvents {
		if e.Cat == "thread state" {
			sums[e.Name] += e.Dur
		}
	}
	if sums["blocked: gil"] < 7999 || sums["blocked: gil"] > 8001 {
		t.Errorf("%v", sums)
	}
}

// A thread has no state before its first row and after its last one.
func TestNoStateWithoutRows(t *testing.T) {
	path := tracetest.WriteThreads(t)
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	_, err = db.Exec("DELETE FROM rtl_cpu_sample")
	must(t, err)
	must(t, db.Close())
	data, _ := exported(t, "pftrace", path)
	v := viewPerfetto(t, data)
	for _, name := range []string{"engine 2983: state", "tokenizer 2982: state"} {
		states := v.slices[v.byName[name]]
		if n := len(states); n < 3 || states[0].name == stateRunning || states[n-1].name == stateRunning {
			t.Errorf("%s: %+v", name, states)
		}
	}
}
