package truth

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// embedded starts the workload that records itself.
func embedded(t *testing.T, args ...string) *harness.Process {
	t.Helper()
	w := harness.Embedding(t, "embedded", args...)
	w.LogsCalls = true
	return begun(t, w)
}

// begun starts the workload, and returns when it dispatches.
func begun(t *testing.T, w harness.Workload) *harness.Process {
	t.Helper()
	p := harness.StartCold(t, w)
	p.Ready(t)
	harness.Until(t, "kernels run", p.Dispatches(t, 100))
	return p
}

// embeddedIn starts it in a folder, which is the one for its temporary files, too.
func embeddedIn(t *testing.T, dir string, args ...string) *harness.Process {
	t.Helper()
	w := harness.Embedding(t, "embedded", args...)
	w.LogsCalls = true
	w.Under = []string{"env", "-C", dir, "TMPDIR=" + dir, "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir}
	return begun(t, w)
}

// must asks the workload for something that succeeds.
func must(t *testing.T, p *harness.Process, path string) {
	t.Helper()
	if answer := p.MustGet(t, path); answer != "0" {
		t.Errorf("%s: %s", path, answer)
	}
}

// quit ends the workload and compares all its sessions with the simulator's log.
func quit(t *testing.T, p *harness.Process, least int) []harness.EmbeddedSession {
	t.Helper()
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	sessions := p.EmbeddedSessions(t)
	if n := harness.CompareEmbedded(t, log, sessions...); n < least {
		t.Errorf("%d kernels recorded, at least %d expected", n, least)
	}
	return sessions
}

var withoutTimes = regexp.MustCompile(`(?m)^\s*(\d+) packets without times`)

// Both examples, as a user builds them: what they print of kernels is all that the GPU has executed.
func TestEmbedExamples(t *testing.T) {
	const count = 200
	kernel := "_Z19silu_and_mul_kernelIDF16_EvmPT_PKS0_"
	for _, c := range []struct {
		program string
		says    []string
	}{
		{"kernels", []string{"kernels"}},
		{"batches", []string{fmt.Sprintf("%d calls of hipModuleLaunchKernel", count), fmt.Sprintf("%d kernels, 0 records dropped", count), "exceptions"}},
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			testenv.Artefact(t, filepath.Join("embed", "examples", c.program))
			p := harness.StartCold(t, harness.Embedding(t, "../embed/examples/"+c.program,
				testenv.Artefact(t, "workloads/kernels.hsaco"), kernel, strconv.Itoa(count)))
			if code := p.Wait(t); code != 0 {
				t.Fatalf("it ended with %d\n%s", code, p.Output())
			}
			log, kernels := p.Truth(t), harness.PrintedKernels(t, p.Output())
			harness.CompareEmbedded(t, log, harness.EmbeddedSession{Kernels: kernels})
			without := 0 // packets, barriers too: a busy machine can use up the signals
			for _, line := range withoutTimes.FindAllStringSubmatch(p.Output(), -1) {
				n, _ := strconv.Atoi(line[1])
				without += n
			}
			if len(kernels) > log.Kernels || len(kernels)+without < log.Kernels || log.Kernels < count {
				t.Errorf("%d kernels printed, %d executed\n%s", len(kernels), log.Kernels, p.Output())
			}
			for _, text := range c.says {
				if !strings.Contains(p.Output(), text) {
					t.Errorf("it does not say %q:\n%s", text, p.Output())
				}
			}
		})
	}
}

// Sessions follow each other under load: all that their callbacks and batches get is true, and nothing is missing.
// The last one ends when the process exits. No file is made, and no descriptor stays in a child.
func TestEmbedSessions(t *testing.T) {
	dir := t.TempDir()
	p := embeddedIn(t, dir)
	before := openFiles(t, p.PID)
	must(t, p, "/buffer")
	for i := range 4 {
		must(t, p, []string{"/start", "/start/all"}[i%2])
		harness.Until(t, "kernels are recorded", func() bool { return p.EmbeddedStats(t).Logged > uint64(500*(i+1)) })
		must(t, p, "/flush")
		if answer := p.MustGet(t, "/start"); !strings.HasPrefix(answer, "-114 ") { // EALREADY
			t.Errorf("a second start: %s", answer)
		}
		must(t, p, "/stop")
		must(t, p, "/stop")
	}
	s := p.EmbeddedStats(t)
	if s.Sessions != 4 || s.Active != 0 || s.Batched != s.Logged || s.Wrong+s.Dropped+s.Unknown+s.Exceptions != 0 {
		t.Errorf("%+v", s)
	}
	must(t, p, "/fork")
	must(t, p, "/shutdown")
	if after := openFiles(t, p.PID); !slices.Equal(before, after) {
		t.Errorf("files:\n%v\nbefore:\n%v", after, before)
	}
	p.StillAlive(t)
	must(t, p, "/start")
	harness.Until(t, "kernels are recorded again", func() bool { return p.EmbeddedStats(t).Logged > s.Logged+200 })
	sessions := quit(t, p, 2000)
	why := make([]int, 0, len(sessions))
	for _, s := range sessions {
		if s.Ended {
			why = append(why, s.Why)
		}
	}
	if want := []int{1, 1, 1, 1, 5}; !slices.Equal(why, want) { // RTL_ENDED_BY_STOP, RTL_ENDED_BY_EXIT
		t.Errorf("the sessions ended by %v, want %v", why, want)
	}
	mustBeEmpty(t, dir)
}

// A program that only shuts the library down makes no file, either.
func TestEmbedOnlyShutdown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := harness.Embedding(t, "embedded", "--only-shutdown", "1")
	cmd := exec.Command(testenv.Artefact(t, filepath.Join("workloads", w.Program)), w.Args...)
	cmd.Dir, cmd.Env = dir, append(w.Sim, "TMPDIR="+dir, "HOME="+dir, "XDG_RUNTIME_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	mustBeEmpty(t, dir)
}

func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) > 0 {
		t.Errorf("files in its folder: %v, %v", files, err)
	}
}

// openFiles lists the files of file systems that a process has open or mapped.
func openFiles(t *testing.T, pid int) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, fd := range fds {
		if path, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/memfd:") {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files
}

// Callbacks are replaced while kernels come, and every second one throws: none gets another's data, each is
// released once, what is thrown is counted, and nothing is lost.
func TestEmbedReplace(t *testing.T) {
	n := testenv.Times(1000, 10000)
	p := embedded(t, "--pace", "100")
	must(t, p, "/start")
	if answer := p.MustGet(t, "/replace?n="+strconv.Itoa(n)); answer != strconv.Itoa(n) {
		t.Errorf("%s of %d callbacks were released", answer, n)
	}
	must(t, p, "/stop")
	s := p.EmbeddedStats(t)
	if s.Wrong != 0 || s.Exceptions != s.Thrown || s.Thrown == 0 || s.Lost != 0 {
		t.Errorf("%+v", s)
	}
	t.Logf("%d replaced, %d records, %d thrown", n, s.Logged, s.Thrown)
	p.StillAlive(t)
	quit(t, p, 100)
}

// Threads that start, stop, flush and shut down at the same time: each call succeeds, and when the last
// shutdown has returned no callback runs.
func TestEmbedStorm(t *testing.T) {
	p := embedded(t)
	var bad, sessions int
	answer := p.MustGet(t, "/storm?n="+strconv.Itoa(testenv.Times(12, 200)))
	if _, err := fmt.Sscan(answer, &bad, &sessions); err != nil || bad != 0 || sessions == 0 {
		t.Errorf("%s\n%s", answer, p.Output())
	}
	harness.Until(t, "kernels run on", p.Dispatches(t, 200))
	if s := p.EmbeddedStats(t); s.Late != 0 || s.Active != 0 {
		t.Errorf("%+v", s)
	}
	must(t, p, "/shutdown")
	p.Quit(t)
}

// A process that records itself is refused to the tool, in words; without a session of its own the tool uses the
// library's payload, and the process is refused to itself meanwhile. `detach` ends a session of the library.
func TestEmbedAndTool(t *testing.T) {
	p := embedded(t)
	must(t, p, "/start")
	refused := p.Begin(t, "-d", "100ms").Wait(t)
	refused.MustBe(t, failure.NotPermitted)
	if !strings.Contains(refused.Stderr, "it records itself") || !strings.Contains(refused.Stderr, "not touched") {
		t.Errorf("the refusal:\n%s", refused.Stderr)
	}
	detach := harness.NewCommand(t, "detach", strconv.Itoa(p.PID))
	detach.Start(t)
	detach.MustExit(t, 0)
	harness.Until(t, "the library's session ends", func() bool { return p.EmbeddedStats(t).Active == 0 })
	must(t, p, "/stop")

	tool := p.Begin(t)
	tool.Drains(t)
	if answer := p.MustGet(t, "/start"); !strings.HasPrefix(answer, "-16 ") { // EBUSY
		t.Errorf("a start beside the tool: %s", answer)
	}
	harness.Until(t, "kernels run", p.Dispatches(t, 400))
	tool.Interrupt(t)
	tool.MustRecord(t)

	must(t, p, "/start")
	harness.Until(t, "kernels run", p.Dispatches(t, 400))
	must(t, p, "/stop")
	p.StillAlive(t)
	if sessions := quit(t, p, 200); sessions[0].Why != 2 { // RTL_ENDED_BY_TOOL
		t.Errorf("the first session ended by %d", sessions[0].Why)
	}
}

// The tool is first, with a payload of its own: the library is refused while it records, and it is refused while the
// library records. The process has two payloads then, of which one at a time is active.
func TestEmbedAfterTool(t *testing.T) {
	p := embedded(t)
	tool := p.Begin(t)
	tool.Drains(t)
	if answer := p.MustGet(t, "/start"); !strings.HasPrefix(answer, "-16 ") {
		t.Errorf("a start beside the tool: %s", answer)
	}
	tool.Interrupt(t)
	tool.MustRecord(t)
	must(t, p, "/start")
	refused := p.Begin(t, "-d", "100ms").Wait(t)
	refused.MustBe(t, failure.NotPermitted)
	if !strings.Contains(refused.Stderr, "it records itself") {
		t.Errorf("the refusal:\n%s", refused.Stderr)
	}
	harness.Until(t, "kernels run", p.Dispatches(t, 400))
	must(t, p, "/shutdown")
	again := p.Begin(t)
	again.Drains(t)
	harness.Until(t, "kernels run", p.Dispatches(t, 400))
	again.Interrupt(t)
	again.MustRecord(t)
	p.StillAlive(t)
	quit(t, p, 100)
}
