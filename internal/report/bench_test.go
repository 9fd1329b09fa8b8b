package report

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// generate writes a trace of n dispatches as internal/export's benchmark does: 8
// queues of 2 GPUs, 300 kernels, 16 threads, some microseconds each, overlapping.
// The last one comes late: in the order of starts it is in the middle.
func generate(t testing.TB, n int, late bool) string {
	t.Helper()
	db, path := create(t)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	must(t, err)
	for id := range uint32(2) {
		must(t, s.Agent(tracedb.Agent{ID: id + 1, GPU: id, Name: "gfx90a", BDF: id, DriverNode: id + 1}))
	}
	for id := range uint32(8) {
		must(t, s.Queue(tracedb.Queue{ID: id + 1, Agent: id%2 + 1, HSAID: uint64(id)}))
	}
	for id := range uint32(300) {
		symbol := fmt.Sprintf("void vllm::paged_attention_v2_kernel<__hip_bfloat16, unsigned char, %d, 16, 128>(float*, float const*)", id)
		must(t, s.Launch(tracedb.Launch{ID: id + 1, Agent: 1, Symbol: symbol, Grid: [3]uint32{256 * id, 1, 1}}))
	}
	const month = 30 * 86400_000_000_000 // ns
	begin := uint64(month)
	batch := make([]tracedb.Dispatch, 4096)
	for done := 0; done < n; done += len(batch) {
		batch = batch[:min(len(batch), n-done)]
		for i := range batch {
			at := uint64(done + i)
			start := begin + at*4000 - at%7*5000
			if late && done+i == n-1 {
				start = begin + at*2000
			}
			batch[i] = tracedb.Dispatch{
				StartNS: start, EndNS: start + 9000 + at%5000, SubmitNS: start - 6000 - at%11*3000, Index: at / 8,
				Queue: uint32(at%8) + 1, Launch: uint32(at%300) + 1, TID: 4000 + uint32(at/64%16),
			}
		}
		must(t, s.Dispatches(batch))
	}
	must(t, s.End(tracedb.End{Reason: "detached", ArmedNS: begin, DetachedNS: begin + uint64(n)*4000}), db.Close())
	return path
}

// BenchmarkReport reads a trace of RTL_REPORT_DISPATCHES (default 1,000,000), and
// tells the time, the processor's time and the most memory that the process has had:
//
//	RTL_REPORT_DISPATCHES=10000000 go test -run '^$' -bench Report -benchtime 1x ./internal/report
//
// "late" is a trace that SQLite has to sort.
func BenchmarkReport(b *testing.B) {
	n := 1_000_000
	if text := os.Getenv("RTL_REPORT_DISPATCHES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(b, err)
	}
	for _, kind := range []struct {
		name   string
		window *Span
		late   bool
	}{{"standard", nil, false}, {"window", &Span{FromNS: int64(n) * 1000, UntilNS: int64(n) * 3000}, false}, {"late", nil, true}} {
		b.Run(kind.name, func(b *testing.B) {
			path := generate(b, n, kind.late)
			resetPeak(b)
			b.ResetTimer()
			cpu := cpuTime(b)
			for b.Loop() {
				r, err := Make(path, Options{Kernels: 10, Window: kind.window})
				must(b, err)
				if kind.window == nil && r.Dispatched() != int64(n) {
					b.Fatalf("%d of %d dispatches", r.Dispatched(), n)
				}
			}
			b.ReportMetric((cpuTime(b)-cpu).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(peakMB(b), "peak-MB")
		})
	}
}

// cpuTime is what the process has used: on a busy machine it tells more than the time.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resetPeak makes the kernel forget VmHWM (proc(5), clear_refs), and us what the generator needed.
func resetPeak(b *testing.B) {
	debug.FreeOSMemory()
	must(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
}

func peakMB(b *testing.B) float64 {
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
