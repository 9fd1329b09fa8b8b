package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestPausesByTheScheduler: what the tool measures of its stops, the kernel does, too:
// as many of them, and none longer.
func TestPausesByTheScheduler(t *testing.T) {
	s := serve(t)
	r := s.record(t, 300*time.Millisecond, "-v")
	r.MustExit(t, 0, 7) // a starved target may dispatch nothing
	said := r.Stderr.String()
	_, pauses, _ := strings.Cut(said, "pauses: ")
	pauses, _, _ = strings.Cut(pauses, "\n")
	_, unknown, found := strings.Cut(pauses, "the kernel's is not known: ")
	if found {
		testenv.Skip(t, unknown)
	}
	sane(t, said, r.ReadSummary(t).Pauses)

	again := s.record(t, 300*time.Millisecond, "-v")
	again.MustExit(t, 0, 7)
	if p := again.ReadSummary(t).Pauses; p.Scheduler == nil || p.Scheduler.Stops > p.Stops {
		t.Errorf("of a second recording: %+v, %+v", p, p.Scheduler)
	}
}

// sane: an attach makes two stops. Now and then a thread does not stop in time: the
// tool counts that, and the kernel has no stop. One that is held over its calls stops
// for each.
func sane(t *testing.T, said string, own report.Pauses) {
	t.Helper()
	seen, held := own.Scheduler, strings.Contains(said, `rung "held"`)
	switch {
	case seen == nil:
		t.Errorf("nothing by the kernel's clock:\n%s", said)
	case seen.Stops < 2, seen.Stops > own.Stops && !held,
		seen.TotalNS <= 0, seen.TotalNS > own.TotalNS, seen.WorstNS > own.WorstNS, seen.WorstNS > seen.TotalNS:
		t.Errorf("by the tool's clock %+v, by the kernel's %+v\n%s", own, seen, said)
	}
}

// TestPausesWithoutVerbose: the kernel's clock counts without -v, too, where it can be had.
func TestPausesWithoutVerbose(t *testing.T) {
	r := serve(t).record(t, 300*time.Millisecond)
	r.MustExit(t, 0, 7)
	p := r.ReadSummary(t).Pauses
	m, err := pausemeter.Open()
	if err == nil {
		m.Close()
	}
	if known := err == nil; p.Stops == 0 || (p.Scheduler != nil) != known || (p.Clock == report.KernelClock) != known {
		t.Errorf("%+v", p)
	}
}

// TestMeterEndsBeforeCollecting: the kernel's programs run only while there may be stops.
func TestMeterEndsBeforeCollecting(t *testing.T) {
	s := serve(t)
	r := s.record(t, hang.Limit, "-v")
	s.written(t)
	if !hang.Eventually(func() bool { return !holdsBPF(t, r.Cmd.Process.Pid) }) {
		t.Error("programs or maps are still there")
	}
	r.Signal(t, unix.SIGINT)
	r.MustExit(t, 0)
}

func holdsBPF(t *testing.T, pid int) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(f os.DirEntry) bool {
		name, _ := os.Readlink(filepath.Join(dir, f.Name()))
		return strings.HasPrefix(name, "anon_inode:bpf")
	})
}

// TestPausesWithoutBPF: one line says why, and the recording is the same.
func TestPausesWithoutBPF(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "needs capabilities to take away")
	}
	s := serve(t)
	trace := filepath.Join(t.TempDir(), "t.db")
	r := newRun(t, trace, "-p", strconv.Itoa(s.pid), "-d", "300ms", "-o", trace, "-v")
	r.Cmd = exec.Command("setpriv", append([]string{"--bounding-set=-sys_admin,-bpf"}, r.Cmd.Args...)...)
	r.Cmd.Stdout, r.Cmd.Stderr = &r.Stdout, &r.Stderr
	r.Start(t)
	r.MustExit(t, 0, 7)
	const why = "(tool's clock; the kernel's is not known: BPF is not permitted)\n"
	if p := r.ReadSummary(t).Pauses; strings.Count(r.Stderr.String(), why) != 1 || p.Stops == 0 || p.Scheduler != nil || p.Clock != report.ToolClock {
		t.Errorf("%+v\n%s", p, r.Stderr.String())
	}
}
