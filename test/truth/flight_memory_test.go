package truth

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A flight recorder of a HIP server that runs for long, with a gap in each minute, which triggers: its trace has the gap.
// The recorder's memory does not grow, and between two traces no file does. RTL_LONG=1 is ten minutes, RTL_LONG=n is n minutes.
func TestFlightMemory(t *testing.T) {
	minutes := testenv.Times(0, 10)
	if minutes == 0 {
		testenv.Skip(t, "ten minutes: RTL_LONG=1")
	}
	const keepMiB, othersMiB = 16, 200 // the decoders, names, and Go's heap, which grows to twice what is used
	const gap = 3 * time.Second        // longer than the server waits for a processor
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4", "--rate", "100", "--kernels", "16"}})
	r := p.Begin(t, "--keep-last", "30s", "--keep-size", fmt.Sprint(keepMiB)+"MiB", "--trigger", "gap>"+gap.String(), "--max-triggers", strconv.Itoa(minutes+1))
	r.Says(t, "✓ attached")
	recorder := r.Cmd.Process.Pid
	var peaks []int // MiB, of each minute
	for minute := 1; minute <= minutes; minute++ {
		peak := 0
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) { // between two looks
			peak = max(peak, residentKiB(recorder)>>10)
			if kept := bytesIn(t, filepath.Dir(r.Trace)); kept != 0 {
				t.Fatalf("%d bytes on disk without a trigger", kept)
			}
		}
		get(t, p, "/pause")
		r.Says(t, fmt.Sprintf("triggered   %d ", minute))
		written, trace := uint64(boottime(t)), partOf(r, minute)
		get(t, p, "/resume")
		part := harness.ReadPart(t, trace)
		mustHaveGap(t, harness.ReadTrace(t, trace), part, gap)
		peaks = append(peaks, max(peak, residentKiB(recorder)>>10))
		t.Logf("minute %d: %d MiB resident at most, %v of its processor time in all; %v from the trigger to a complete file of %d bytes with the last %v, limited by %s",
			minute, peaks[minute-1], processorTime(recorder), time.Duration(written-part.FiredNS).Round(time.Millisecond), bytesIn(t, filepath.Dir(r.Trace)),
			time.Duration(part.FiredNS-part.FromNS).Round(time.Millisecond), part.LimitedBy)
		if err := os.Remove(trace); err != nil {
			t.Fatal(err)
		}
	}
	harness.Tool(t, "detach", strconv.Itoa(p.PID)).MustBe(t, failure.OK)
	r.Wait(t).MustBe(t, failure.OK)
	for minute, peak := range peaks {
		if peak > 4*keepMiB+othersMiB {
			t.Errorf("minute %d: %d MiB resident, to keep %d MiB", minute+1, peak, keepMiB)
		}
	}
	if then, now := peaks[len(peaks)/3], peaks[len(peaks)-1]; now > then+then/4+keepMiB {
		t.Errorf("%d MiB resident after a third of the time, %d at its end", then, now)
	}
}

func residentKiB(pid int) (n int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, after, found := strings.Cut(string(status), "VmRSS:"); found {
		_, _ = fmt.Sscan(after, &n)
	}
	return n
}

// processorTime returns what all threads of a process have used.
func processorTime(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100) // USER_HZ
}

// bytesIn returns the size of all files of a folder.
func bytesIn(t *testing.T, dir string) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}
