package truth

import (
	"cmp"
	"encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// tracelens makes a report of AMD's TraceLens on a file and returns the folder of its tables. Its sources are in RTL_TRACELENS; RTL_PYTHON is a python3 that has pandas,
// openpyxl, tqdm, tabulate and yaml (Debian's packages will do).
func tracelens(t *testing.T, report string, args ...string) string {
	t.Helper()
	python := os.Getenv("RTL_PYTHON")
	if python == "" {
		python = "python3"
	}
	out := filepath.Join(t.TempDir(), "tables")
	cmd := exec.Command(python, append([]string{"-m", "TraceLens.Reporting.generate_perf_report_" + report, "--output_csvs_dir", out}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+os.Getenv("RTL_TRACELENS"), "PYTHONDONTWRITEBYTECODE=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return out
}

// column reads one of a table of TraceLens's, by its name.
func column(t *testing.T, path, name string) (values []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, %v", path, len(rows), err)
	}
	for i, title := range rows[0] {
		if title == name {
			for _, row := range rows[1:] {
				values = append(values, row[i])
			}
			return values
		}
	}
	t.Fatalf("%s has no column %q, but %q", path, name, rows[0])
	return nil
}

// TestTraceLens: it finds every kernel and every copy of what `export -f rocprofv3` writes,
// and the time in which there was a kernel.
func TestTraceLens(t *testing.T) {
	if os.Getenv("RTL_TRACELENS") == "" {
		testenv.Skip(t, "no RTL_TRACELENS=/path/TraceLens")
	}
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4", "--rate", "50"}})
	run := p.RecordUntil(t, time.Second, 1000, "--memory-copy-trace", "--hip-trace", "--buffer-policy", "lossless")
	p.Quit(t)
	results := filepath.Join(t.TempDir(), "t_results.json")
	if out := harness.Tool(t, "export", run.Trace, "-f", "rocprofv3", "-o", results); out.Code != 0 {
		t.Fatalf("export: %d\n%s", out.Code, out.Stderr)
	}
	checkHIPReports(t, run.Trace)
	tables := tracelens(t, "rocprof", "--profile_json_path", results, "--kernel_details")
	kernels, copies := recordedOnGPU(t, run.Trace)
	if found := len(column(t, filepath.Join(tables, "kernel_details.csv"), "name")); found != len(kernels) || found == 0 || len(copies) == 0 {
		t.Errorf("%d kernels of %d; %d copies", found, len(kernels), len(copies))
	}
	summary, timeline := filepath.Join(tables, "kernel_summary.csv"), filepath.Join(tables, "gpu_timeline.csv")
	names, counts := column(t, summary, "name"), column(t, summary, "Count")
	if want := number(t, run.Trace, "SELECT count(*) FROM top"); len(names) != want {
		t.Errorf("%d names of %d", len(names), want)
	}
	for i, name := range names {
		quoted := strings.ReplaceAll(name, "'", "''")
		if want := number(t, run.Trace, "SELECT Calls FROM top WHERE Name = '"+quoted+"'"); counts[i] != strconv.Itoa(want) {
			t.Errorf("%s: %s calls of %d", name, counts[i], want)
		}
	}
	what, times := column(t, timeline, "type"), column(t, timeline, "time ms")
	for kind, want := range map[string]float64{"kernel": covered(kernels), "memory": covered(copies)} {
		found, err := strconv.ParseFloat(times[slices.Index(what, kind)], 64)
		if err != nil || math.Abs(found-want) > 0.001*want {
			t.Errorf("%s: %v ms, %v; the trace has %v", kind, found, err, want)
		}
	}
}

// checkHIPReports: TraceLens' reports on calls of HIP find, in what `export -f chrome` writes, each launch with its kernel,
// and each call.
func checkHIPReports(t *testing.T, trace string) {
	t.Helper()
	timeline := filepath.Join(t.TempDir(), "t.json")
	if out := harness.Tool(t, "export", trace, "-f", "chrome", "-o", timeline); out.Code != 0 {
		t.Fatalf("export: %d\n%s", out.Code, out.Stderr)
	}
	sum := func(path, name string, of func(row int) bool) (all int) {
		t.Helper()
		for i, text := range column(t, path, name) {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatalf("%s: %s %q", path, name, text)
			}
			if of(i) {
				all += int(n)
			}
		}
		return all
	}
	const launches = `FROM call_kernel x JOIN call c ON c.id = x.call_id WHERE c.function = 'hipModuleLaunchKernel'`
	table := filepath.Join(tracelens(t, "pftrace_hip_api", "--trace_path", timeline), "api_kernel_summary.csv")
	apis := column(t, table, "API Name")
	of := func(row int) bool { return apis[row] == "hipModuleLaunchKernel" }
	if got, want := sum(table, "Count", of), number(t, trace, "SELECT count(DISTINCT x.call_id) "+launches); got != want || got == 0 {
		t.Errorf("hip_api: %d launches with kernels, the trace has %d", got, want)
	}
	tables := tracelens(t, "pftrace_hip_activity", "--trace_path", timeline, "--min_event_ns", "0", "--hip_summary_top", "1000")
	for name, want := range map[string]string{
		"kernel_summary.csv": "SELECT count(*) FROM rtl_execution",
		"hip_summary.csv":    "SELECT count(*) FROM call WHERE api IN ('hip-runtime-api', 'hip-compiler-api')",
	} {
		path := filepath.Join(tables, name)
		if got, want := sum(path, "Instances", func(int) bool { return true }), number(t, trace, want); got != want {
			t.Errorf("%s: %d, the trace has %d", name, got, want)
		}
	}
}

// stretch is a time from begin to end, in ns.
type stretch struct{ from, until int64 }

// recordedOnGPU is what a trace has of kernels and of copies, in the order of their begins.
func recordedOnGPU(t *testing.T, path string) (kernels, copies []stretch) {
	t.Helper()
	for _, d := range harness.ReadTrace(t, path).Dispatches {
		kernels = append(kernels, stretch{d.StartNS, d.EndNS})
	}
	all, _ := harness.ReadCopies(t, path)
	for _, c := range all {
		if c.StartNS > 0 {
			copies = append(copies, stretch{c.StartNS, c.EndNS})
		}
	}
	for _, list := range [][]stretch{kernels, copies} {
		slices.SortFunc(list, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	}
	return kernels, copies
}

// covered is how many ms the stretches cover, which are in the order of their begins.
func covered(list []stretch) float64 {
	var sum, until int64
	for _, s := range list {
		sum += max(0, s.until-max(s.from, until))
		until = max(until, s.until)
	}
	return float64(sum) / 1e6
}
