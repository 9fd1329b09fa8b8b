package truth

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestRun: a program that the tool starts is recorded from its first kernel to its last.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]harness.Workload{
		"stress":  seconds(harness.Stress(6, 3, 64, "--pace", "100"), "1"),
		"cycles":  seconds(harness.Stress(4, 2, 64, "--pace", "100", "--cycles", "4"), "2"), // a runtime for each
		"HIP":     {Program: "serve", Args: []string{"--threads", "2", "--streams", "2"}},
		"wrapped": under(seconds(harness.Stress(2, 2, 64, "--pace", "100"), "1"), "sh", "-c", `"$@"; exit $?`, "sh"),
	} {
		t.Run(name, func(t *testing.T) { recordsAll(t, w) })
	}
}

// closing is a program of Python's that starts another one with all inherited descriptors closed, as
// subprocess does.
const closing = `import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)`

// TestRunClosedDescriptors: a process is recorded although its parent has closed the descriptors.
func TestRunClosedDescriptors(t *testing.T) {
	recordsAll(t, under(seconds(harness.Stress(2, 2, 64, "--pace", "100"), "1"), "python3", "-c", closing))
}

// TestRunTree: processes of a program that run at the same time are recorded together, from the first kernel of each
// to its last, into one trace.
func TestRunTree(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "t.db")
	w := seconds(harness.Stress(2, 2, 64, "--pace", "200"), "2")
	const script = `d=$1; shift; for i in 1 2 3; do SOFTGPU_LOG=$d/$i.log "$@" & done; wait`
	cmd := exec.Command(testenv.Artefact(t, "rtl-attach"), append([]string{
		"run", "--strict", "-o", trace, "--", "sh", "-c", script, "sh", dir, testenv.Artefact(t, "workloads/"+w.Program),
	}, w.Args...)...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testenv.Artefact(t, "libsoftgpu.so"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	executed := 0
	for i := 1; i <= 3; i++ {
		records, err := simlog.Read(filepath.Join(dir, fmt.Sprintf("%d.log", i)))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Kind == simlog.Kernel && r.UniqueID != 0 { // not one of the runtime's own
				executed++
			}
		}
	}
	tr := harness.ReadTrace(t, trace)
	pids := map[int64]bool{}
	for _, s := range tr.Sessions {
		pids[s.PID] = true
	}
	if got := len(tr.Dispatches) + len(tr.Untimed); got != executed || executed == 0 || len(pids) != 3 {
		t.Errorf("%d dispatches of %d processes are recorded, %d kernels executed\n%s", got, len(pids), executed, out)
	}
}

func seconds(w harness.Workload, n string) harness.Workload {
	w.Args = append(w.Args, "--seconds", n)
	return w
}

func under(w harness.Workload, command ...string) harness.Workload {
	w.Under = command
	return w
}

// run starts a workload by the tool.
func run(t *testing.T, w harness.Workload) (p *harness.Process, trace string) {
	t.Helper()
	w.RunBy = []string{"-v"}
	p = harness.StartCold(t, w)
	return p, p.RunTrace()
}

func recordsAll(t *testing.T, w harness.Workload) *harness.Process {
	t.Helper()
	p, trace := run(t, w)
	p.Ready(t)
	if w.Program == "serve" {
		harness.Until(t, "it has dispatched", p.Dispatches(t, 3000))
		if _, err := p.Get("/quit"); err != nil {
			t.Fatal(err)
		}
	}
	counts := p.Finish(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	tr := harness.ReadTrace(t, trace)
	c := harness.Compare(t, log)
	c.Producers = false // each runtime has threads of its own
	c.Add(tr)
	c.Finish(nil)
	if c.Lost > 0 || c.Recorded != c.InWindows || log.Kernels-c.InWindows > c.MostRaw() { // a claim can precede the session's sight of its queue: it says so
		t.Errorf("%d kernels, %d in windows, %d recorded, %d records lost\n%s", log.Kernels, c.InWindows, c.Recorded, c.Lost, p.Output())
	}
	c.MustHaveRecorded(100)
	for _, window := range tr.Windows {
		if window.First != 0 && c.MostRaw() == 0 {
			t.Errorf("a window begins at packet %d", window.First)
		}
	}
	return p
}

// TestRunWindows: a program that the tool starts is recorded in windows, from the time at which it has asked for its GPUs on.
// The program goes on between them and after them.
func TestRunWindows(t *testing.T) {
	t.Parallel()
	w := seconds(harness.Stress(2, 2, 64, "--pace", "200"), "2")
	w.RunBy = append([]string{"-v"}, inPeriods(300, 200, 2)...)
	p := harness.StartCold(t, w)
	trace := p.RunTrace()
	counts := p.Finish(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	periods := harness.ReadPeriods(t, trace)
	recorded := harness.CheckPeriods(t, periods)
	last := periods[len(periods)-1]
	if n := last.Number + last.Count; n != 2 {
		t.Errorf("%d windows in the trace: %+v\n%s", n, periods, p.Output())
	}
	c := harness.Compare(t, log)
	c.Add(harness.ReadTrace(t, trace))
	c.Finish(nil)
	c.MustHaveRecorded(20)
	if c.Recorded >= log.Kernels {
		t.Errorf("%d windows, and all of %d kernels are recorded", recorded, log.Kernels)
	}
}

// TestRunKilled: the tool is killed at a moment of its work, and the program goes on as if it had never
// been there.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"launched", "looked", "created", "taken", "ordered", "attached", "recording"} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			said := filepath.Join(dir, "said")
			out, err := os.Create(said)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			w := seconds(harness.Stress(2, 2, 64, "--pace", "100"), "1")
			cmd := exec.Command(testenv.Artefact(t, "rtl-attach-fault"), append([]string{
				"run", "-o", filepath.Join(dir, "t.db"), "--",
				"sh", "-c", `"$@"; echo "exit code $?"`, "sh", testenv.Artefact(t, "workloads/"+w.Program),
			}, w.Args...)...)
			cmd.Env = append(os.Environ(), "LD_PRELOAD="+testenv.Artefact(t, "libsoftgpu.so"), "RTL_FAULT=kill@"+point)
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Run(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Errorf("the tool was not killed: %v", err)
			}
			text := func() string { b, _ := os.ReadFile(said); return string(b) }
			if !hang.Eventually(func() bool { return strings.Contains(text(), "exit code") }) {
				t.Fatalf("the program does not end\n%s", text())
			}
			for _, want := range []string{"made to kill at " + point, "exit code 0"} {
				if !strings.Contains(text(), want) {
					t.Errorf("not said: %s\n%s", want, text())
				}
			}
		})
	}
}

// TestRunBesideOtherTool: the runtime loads the user's own tool, too.
func TestRunBesideOtherTool(t *testing.T) {
	t.Parallel()
	tool := harness.WorkloadFile(t, "other_tool.so")
	for _, list := range []string{tool, tool + " ", `"` + tool + `"`, "/no/such/tool.so"} {
		t.Run(fmt.Sprintf("%.30q", filepath.Base(list)), func(t *testing.T) {
			w := seconds(harness.Stress(2, 2, 64, "--pace", "100"), "1")
			w.Sim = []string{"HSA_TOOLS_LIB=" + list}
			p := recordsAll(t, w)
			var calls int
			_, text, _ := strings.Cut(p.Output(), "other tool: ")
			if _, err := fmt.Sscan(text, &calls); (err != nil || calls < 100) != (list == "/no/such/tool.so") {
				t.Errorf("the user's tool got %d calls\n%s", calls, p.Output())
			}
		})
	}
}
