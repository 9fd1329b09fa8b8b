package truth

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// peers are the sources of rocm-trace-lite and of rocmProfileData, whose scripts read our
// traces: RTL_PEER_SCRIPTS=/path/rocm-trace-lite:/path/rocmProfileData.
type peers struct{ lite, rpd string }

func findPeers(t *testing.T) peers {
	t.Helper()
	list := filepath.SplitList(os.Getenv("RTL_PEER_SCRIPTS"))
	if len(list) != 2 {
		testenv.Skip(t, "no RTL_PEER_SCRIPTS=/path/rocm-trace-lite:/path/rocmProfileData")
	}
	return peers{list[0], list[1]}
}

// run runs a command, which must exit with 0, and returns its output.
func (p peers) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+p.lite+":"+filepath.Join(p.rpd, "rocpd_python"), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("python3 %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestPeersScripts: the scripts exit with 0 on a trace and on its `export -f rpd`, and find
// everything in it.
func TestPeersScripts(t *testing.T) {
	p := findPeers(t)
	server := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4", "--rate", "50"}})
	one := server.Record(t, 2*time.Second).Trace
	copies := server.Record(t, 2*time.Second, "--memory-copy-trace").Trace
	calls := server.Record(t, time.Second, "--hip-trace", "--marker-trace").Trace
	server.Quit(t)
	fleet := harness.StartFleet(t, workers)
	whole := fleet.Record(t, 2*time.Second).Trace
	fleet.Quit(t, fleet.Workers(t))
	t.Run("calls", func(t *testing.T) { p.readCalls(t, calls) })
	for name, trace := range map[string]string{"one process": one, "copies": copies, "server": whole} {
		t.Run(name, func(t *testing.T) {
			p.read(t, trace)
			rpd := filepath.Join(t.TempDir(), "trace.rpd")
			if run := harness.Tool(t, "export", trace, "-f", "rpd", "-o", rpd); run.Code != 0 {
				t.Fatalf("export: %d\n%s", run.Code, run.Stderr)
			}
			p.read(t, rpd)
			p.write(t, rpd)
		})
	}
}

// readCalls: the scripts find HIP's calls in the trace itself.
func (p peers) readCalls(t *testing.T, trace string) {
	t.Helper()
	p.read(t, trace)
	out := filepath.Join(t.TempDir(), "out.json")
	p.run(t, filepath.Join(p.rpd, "tools/rpd2tracing.py"), trace, out)
	const launches = "SELECT count(*) FROM call WHERE function = 'hipModuleLaunchKernel' OR function = 'hipLaunchKernel'"
	if n, want := events(t, out, "name", "hipModuleLaunchKernel")+events(t, out, "name", "hipLaunchKernel"), number(t, trace, launches); n != want || n == 0 {
		t.Errorf("rpd2tracing: %d launches of %d", n, want)
	}
}

// read runs the scripts that read.
func (p peers) read(t *testing.T, trace string) {
	t.Helper()
	ops, kernels := count(t, trace, "rocpd_op"), count(t, trace, "top")
	said := p.run(t, "-m", "rocm_trace_lite.cli", "summary", "-n", "1000", trace)
	if !strings.Contains(said, fmt.Sprintf("GPU ops:   %d\n", ops)) || strings.Count(said, "\n") < kernels {
		t.Errorf("rtl summary of %d operations, %d kernels:\n%s", ops, kernels, said)
	}
	if said := p.run(t, "-m", "rocm_trace_lite.cli", "info", trace); !strings.Contains(said, "schema_version: 2\n") {
		t.Errorf("rtl info:\n%s", said)
	}
	out := filepath.Join(t.TempDir(), "out.json")
	p.run(t, "-m", "rocm_trace_lite.cli", "convert", trace, "-o", out)
	if n := events(t, out, "cat", "KernelExecution"); n != kernelOps(t, trace) {
		t.Errorf("rtl convert: %d kernels of %d", n, kernelOps(t, trace))
	}
	p.run(t, "-m", "rocm_trace_lite.cli", "convert", "-f", "rocprofv3", trace, "-o", out)
	p.run(t, filepath.Join(p.rpd, "tools/rpd2tracing.py"), trace, out)
	if n := events(t, out, "ph", "f"); n != ops { // an arrow from each call to its operation
		t.Errorf("rpd2tracing: %d operations of %d", n, ops)
	}
}

// write runs the scripts that write into their input, on real tables.
func (p peers) write(t *testing.T, rpd string) {
	t.Helper()
	middle := number(t, rpd, "SELECT start FROM rocpd_api ORDER BY start LIMIT 1 OFFSET (SELECT count(*) / 2 FROM rocpd_api)")
	want := number(t, rpd, fmt.Sprintf("SELECT count(*) FROM rocpd_api WHERE start <= %d", middle))
	p.run(t, "-m", "rocpd.metadata", rpd)
	p.run(t, "-m", "rocpd.call_stacks", rpd)
	said := p.run(t, filepath.Join(p.rpd, "tools/rpd_trim.py"), "--end", strconv.Itoa(middle), rpd)
	if left := count(t, rpd, "rocpd_op"); left != want {
		t.Errorf("rpd_trim leaves %d operations, not %d\n%s", left, want, said)
	}
}

func count(t *testing.T, trace, table string) int {
	return number(t, trace, "SELECT count(*) FROM "+table)
}

func kernelOps(t *testing.T, trace string) int {
	return number(t, trace, `SELECT count(*) FROM rocpd_op o JOIN rocpd_string s ON s.id = o.opType_id WHERE s.string = 'KernelExecution'`)
}

func number(t *testing.T, trace, query string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+trace+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// events returns the number of events of a chrome trace with this value.
func events(t *testing.T, path, key, value string) (n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ TraceEvents []map[string]any }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, e := range file.TraceEvents {
		if e[key] == value {
			n++
		}
	}
	return n
}
