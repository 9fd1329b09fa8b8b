package truth

import (
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// TestFlows: in each export a kernel is linked with the call of HIP that launched it, and in timelines a copy
// with the call that made it.
func TestFlows(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4", "--copy-bytes", "65536"}})
	run := p.RecordUntil(t, 500*time.Millisecond, 4000, append([]string{"--memory-copy-trace"}, hipCalls...)...)
	p.Quit(t)
	flows, copies := harness.ReadFlows(t, run.Trace)
	launched := 0
	for _, f := range flows {
		switch {
		case f.Function == "":
			if !f.BeforeFirst && !f.BehindLast {
				t.Errorf("thread %d submitted a kernel at %d in no call", f.TID, f.SubmitNS)
			}
		case strings.Contains(f.Function, "Launch"):
			launched++
		case !strings.HasPrefix(f.Symbol, "__amd_rocclr"):
			t.Errorf("%s submitted by %s", f.Symbol, f.Function)
		}
	}
	if launched < 1000 {
		t.Fatalf("only %d kernels of %d launched by calls", launched, len(flows))
	}
	maps.DeleteFunc(copies, func(_ int64, f harness.Flow) bool { return f.Function == "" }) // no arrow leads there
	if len(copies) < 100 {
		t.Errorf("only %d copies by calls", len(copies))
	}
	t.Logf("%d kernels, %d launched by calls; %d copies by calls", len(flows), launched, len(copies))
	if text := reportOf(t, run.Trace); strings.Contains(text, ownThread) {
		t.Errorf("the report says:\n%s", text)
	}
	exported := func(format, file string) string {
		path := filepath.Join(t.TempDir(), file)
		if out := harness.Tool(t, "export", run.Trace, "-f", format, "-o", path); out.Code != 0 {
			t.Fatalf("export: %d\n%s", out.Code, out.Stderr)
		}
		return path
	}
	t.Run("pftrace", func(t *testing.T) {
		arrowsMatch(t, flows, copies, harness.PerfettoArrows(t, exported("pftrace", "t.pftrace")))
	})
	t.Run("chrome", func(t *testing.T) {
		arrowsMatch(t, flows, copies, harness.ChromeArrows(t, exported("chrome", "t.json")))
	})
	t.Run("rpd", func(t *testing.T) { operationsMatch(t, flows, exported("rpd", "t.rpd")) })
}

// arrowsMatch checks that each arrow begins at its call, or else at the kernel's submit.
func arrowsMatch(t *testing.T, kernels, copies map[int64]harness.Flow, arrows map[harness.ArrowID]harness.Arrow) {
	t.Helper()
	flows := map[harness.ArrowID]harness.Flow{}
	for id, f := range kernels {
		flows[harness.ArrowID{ID: uint64(id)}] = f
	}
	for id, f := range copies {
		flows[harness.ArrowID{IsCopy: true, ID: uint64(id)}] = f
	}
	if len(arrows) != len(flows) {
		t.Errorf("%d arrows of %d", len(arrows), len(flows))
	}
	wrong := 0
	for id, f := range flows {
		a := arrows[id]
		ok := a.ToNS == f.StartNS && a.IsCall(f.TID, f.Function) && a.FromNS == f.CallStartNS
		if f.Function == "" {
			ok = a.ToNS == f.StartNS && strings.HasSuffix(a.From, ": submit") && a.FromNS == f.SubmitNS
		}
		if !ok {
			if wrong++; wrong <= 3 {
				t.Errorf("%+v, expected %+v", a, f)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d arrows of %d are wrong", wrong, len(flows))
	}
}

// operationsMatch checks that each operation of a kernel has one api row: its call's, or else its submit's.
func operationsMatch(t *testing.T, flows map[int64]harness.Flow, path string) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT o.id, n.string, a.tid, a.start FROM rocpd_api_ops l JOIN rocpd_op o ON o.id = l.op_id
		JOIN rocpd_api a ON a.id = l.api_id JOIN rocpd_string n ON n.id = a.apiName_id
		JOIN rocpd_string k ON k.id = o.opType_id WHERE k.string = 'KernelExecution'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	seen := map[int64]bool{}
	for rows.Next() {
		var op, tid, start int64
		var name string
		if err := rows.Scan(&op, &name, &tid, &start); err != nil {
			t.Fatal(err)
		}
		f, known := flows[op]
		want := fmt.Sprint(f.Function, f.TID, f.CallStartNS)
		if f.Function == "" {
			want = fmt.Sprint("KernelSubmit", f.TID, f.SubmitNS)
		}
		if got := fmt.Sprint(name, tid, start); seen[op] || known && got != want {
			t.Errorf("operation %d: %s, expected %s; again: %t", op, got, want, seen[op])
		}
		seen[op] = true
	}
	if rows.Err() != nil || len(seen) < len(flows) {
		t.Errorf("%d operations of %d, %v", len(seen), len(flows), rows.Err())
	}
}

// ownThread is what a report says of a process in which HIP's own thread submits.
const ownThread = "kernels are submitted by HIP's own thread (AMD_DIRECT_DISPATCH=0): calls are not linked to kernels"

// TestFlowsOfOwnThread: with AMD_DIRECT_DISPATCH=0 a launch only hands its kernel to HIP's own thread. The
// report says so, and no launch is linked.
func TestFlowsOfOwnThread(t *testing.T) {
	t.Parallel()
	needCalls(t)
	workload := harness.HIPCalls()
	workload.Sim = append(workload.Sim, "AMD_DIRECT_DISPATCH=0")
	p := harness.Start(t, workload)
	run := p.RecordLast(t, 300*time.Millisecond, 2000, hipCalls...)
	linked := 0
	flows, _ := harness.ReadFlows(t, run.Trace)
	for _, f := range flows {
		if strings.Contains(f.Function, "Launch") {
			linked++
		}
	}
	if linked > len(flows)/10 {
		t.Errorf("%d of %d kernels were submitted in launches", linked, len(flows))
	}
	if !strings.Contains(reportOf(t, run.Trace), ownThread) {
		t.Errorf("%d of %d kernels in launches, and the report says:\n%s", linked, len(flows), reportOf(t, run.Trace))
	}
	t.Logf("%d of %d kernels were submitted in launches", linked, len(flows))
}

// reportOf returns a trace's report.
func reportOf(t *testing.T, trace string) string {
	t.Helper()
	out := harness.Tool(t, "report", trace)
	if out.Code != 0 {
		t.Fatalf("report: %d\n%s", out.Code, out.Stderr)
	}
	return out.Stdout
}
