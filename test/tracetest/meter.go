package tracetest

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Meter measures the processor time and the memory of a benchmark.
type Meter struct {
	b   *testing.B
	cpu time.Duration
}

// Begin resets the timer, frees the memory from writing the trace, and resets the kernel's VmHWM
// (proc(5), clear_refs).
func Begin(b *testing.B) Meter {
	b.Helper()
	debug.FreeOSMemory()
	must(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
	b.ResetTimer()
	return Meter{b: b, cpu: cpuTime(b)}
}

// Report reports the processor time, which on a busy machine is more meaningful than the
// benchmark's own time, and the process's peak memory.
func (m Meter) Report() {
	m.b.ReportMetric((cpuTime(m.b)-m.cpu).Seconds()/float64(m.b.N), "cpu-s/op")
	m.b.ReportMetric(peakMB(m.b), "peak-MB")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peakMB(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(b, err)
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			must(b, err)
			return float64(kB) / 1000
		}
	}
	b.Fatal("no VmHWM")
	return 0
}

// Count is how many dispatches a benchmark's trace is to have: what variable says, or 1,000,000.
func Count(b *testing.B, variable string) int {
	b.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	must(b, err)
	return n
}
