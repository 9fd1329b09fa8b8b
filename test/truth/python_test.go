package truth

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/python"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// pythonVersions are those that can be read.
var pythonVersions = []string{"3.11", "3.12", "3.13", "3.14"}

// eachPython runs a test with an interpreter of each version: the machine's own, or that of a release (make runtimes).
func eachPython(t *testing.T, test func(*testing.T, harness.Workload)) {
	for _, version := range pythonVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := harness.Workload{Program: "pystacks.py", NoGPU: true}
			if out, err := exec.Command("python"+version, "-c", "import sys; print(sys.executable)").Output(); err == nil {
				w.Under = []string{strings.TrimSpace(string(out))} // no script in front of it
				test(t, w)
				return
			}
			for _, suite := range []string{"trixie", "sid"} {
				path := filepath.Join(testenv.BuildDir(), "roots", suite, "usr/bin/python"+version)
				if _, err := os.Stat(path); err == nil {
					r := harness.FindRuntime(t, suite)
					if !r.Has(w.Program) {
						testenv.Skip(t, "the runtime "+suite+" was made before this program: make runtimes")
					}
					w.Runtime, w.Under = &r, []string{"/usr/bin/python" + version}
					test(t, w)
					return
				}
			}
			testenv.Skip(t, "no python"+version)
		})
	}
}

// reader opens a process's interpreter.
func reader(t *testing.T, pid int) (*python.Interpreter, *target.Target) {
	t.Helper()
	tg, err := target.OpenReadOnly(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	maps, err := tg.Maps()
	if err != nil {
		t.Fatal(err)
	}
	p, err := python.Find(tg, maps)
	if err != nil {
		t.Fatal(err)
	}
	return p, tg
}

// knownStacks is what pystacks.py prints of itself.
type knownStacks struct {
	PID     int
	Version string
	Threads map[int][][3]any
}

func known(t *testing.T, p *harness.Process) (k knownStacks) {
	t.Helper()
	for line := range strings.Lines(p.Output()) {
		if strings.HasPrefix(line, "{") {
			if err := json.Unmarshal([]byte(line), &k); err != nil {
				t.Fatal(err)
			}
		}
	}
	return k
}

// TestPythonStacks: each frame of each parked thread has the name, file and line that Python itself says.
func TestPythonStacks(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"parked", "forked"} {
		t.Run(mode, func(t *testing.T) {
			eachPython(t, func(t *testing.T, w harness.Workload) {
				w.Args = []string{mode}
				p := harness.StartCold(t, w)
				p.Ready(t)
				compareStacks(t, known(t, p))
			})
		})
	}
}

func compareStacks(t *testing.T, known knownStacks) {
	in, _ := reader(t, known.PID)
	if in.Version() != known.Version || len(known.Threads) != 12 {
		t.Errorf("version %s is not %s, or %d threads", in.Version(), known.Version, len(known.Threads))
	}
	threads, err := in.Threads()
	if err != nil || len(threads) != len(known.Threads)+1 {
		t.Errorf("threads: %v, %v", threads, err)
	}
	frames := 0
	for tid, want := range known.Threads {
		got, err := in.Stack(tid)
		if err != nil {
			t.Errorf("thread %d: %v", tid, err)
		}
		for i := range max(len(got), len(want)) {
			var a, b string
			if i < len(got) {
				a = fmt.Sprint(got[i])
			}
			if i < len(want) {
				b = fmt.Sprint(python.Frame{Name: sanitize.Text(want[i][0].(string)), File: want[i][1].(string), Line: int(want[i][2].(float64))})
			}
			if frames++; a != b {
				t.Errorf("thread %d, frame %d: %s, want %s", tid, i, a, b)
			}
		}
	}
	if l := in.Layout(); l.TSS == 0 {
		t.Errorf("no place of the thread state in %d threads: %+v", len(threads), l)
	}
	t.Logf("%s: %d frames of %d threads", in.Version(), frames, len(known.Threads))
}

// TestPythonSpy: samples without BPF are of all threads, in order, until the process ends.
func TestPythonSpy(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, w harness.Workload) {
		w.Args = []string{"parked"}
		p := harness.StartCold(t, w)
		p.Ready(t)
		k := known(t, p)
		in, tg := reader(t, p.PID)
		spy := &python.Spy{Interpreter: in, Target: tg, Interval: time.Millisecond}
		samples := map[int]int{}
		var last uint64
		err := spy.Run(t.Context(), func(s python.Sample) {
			if s.TimeNS < last || s.Running != (s.State == 'R') || s.Cut {
				t.Errorf("%+v after %d", s, last)
			}
			last = s.TimeNS
			if want := k.Threads[s.TID]; want == nil && s.TID != p.PID || want != nil && len(s.Frames) != len(want) {
				t.Errorf("%+v, want %v", s, want)
			}
			if samples[s.TID]++; len(samples) == len(k.Threads)+1 && samples[s.TID] == 3 {
				p.Kill() // Run then ends
			}
		})
		if err != nil || len(samples) != len(k.Threads)+1 || spy.Rounds < 3 {
			t.Errorf("%v, %d threads, %+v", err, len(samples), spy)
		}
	})
}

// TestPythonBusy: of threads that call and return all the time, hardly any stack has a frame that its caller's line does not
// call. CPython before 3.13 itself shows one for some instructions of each call from C, also if the thread stops there: see
// python.Spy.
func TestPythonBusy(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(testenv.Artefact(t, filepath.Join("workloads", "pystacks.py")))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(source), "\n")
	enoughStacks := 2000
	if testenv.Long() {
		enoughStacks = 100_000
	}
	eachPython(t, func(t *testing.T, w harness.Workload) {
		w.Args = []string{"busy"}
		p := harness.StartCold(t, w)
		p.Ready(t)
		in, _ := reader(t, p.PID)
		whole, torn, wrong := 0, 0, 0
		enough := func() bool {
			threads, err := in.Threads()
			if err != nil {
				t.Fatal(err)
			}
			for tid := range threads {
				frames, err := in.Stack(int(tid))
				switch {
				case errors.Is(err, python.ErrTorn):
					torn++
				case err != nil:
					t.Fatal(err)
				case int(tid) != p.PID:
					whole++
					if why := plausible(frames, lines); why != "" {
						if wrong++; wrong < 10 {
							t.Logf("%s in %v", why, frames)
						}
					}
				}
			}
			return whole > enoughStacks
		}
		for !hang.Eventually(enough) {
			t.Fatal("too few stacks")
		}
		t.Logf("%s: %d stacks, %d of them wrong, %d torn", in.Version(), whole, wrong, torn)
		if wrong > max(1, whole/10_000) {
			t.Error("too many of them are wrong")
		}
	})
}

// plausible returns why a stack of pystacks.py's busy threads cannot be one; "": it can.
func plausible(frames []python.Frame, lines []string) string {
	if len(frames) == 0 || !slices.Contains([]string{"Thread._bootstrap", "_BootstrapInner"}, frames[len(frames)-1].Name) {
		return "no beginning"
	}
	for i, f := range frames[:len(frames)-1] {
		caller := frames[i+1]
		if n, made := strings.CutPrefix(f.File, "<made "); made && f.Name != "<module>" && f.Name != "f"+strings.TrimSuffix(n, ">") {
			return "a function of another file"
		}
		if filepath.Base(caller.File) != "pystacks.py" {
			continue // of the library, or made
		}
		name := strings.TrimRight(f.Name, "0123456789")
		line := lines[max(caller.Line, 1)-1]
		calls := strings.TrimPrefix(line[max(strings.LastIndex(line, "# calls "), 0):], "# calls ")
		if !slices.Contains(strings.Split(calls, ", "), name) {
			return fmt.Sprintf("line %d of %s does not call %s", caller.Line, caller.Name, f.Name)
		}
	}
	return ""
}
