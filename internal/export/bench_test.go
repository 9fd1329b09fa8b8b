package export

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Orders of a trace's rows.
func inOrder(i, _ int) int { return i }

func scattered(i, n int) int { return int(uint64(i) * 7_368_787 % uint64(n)) } // a prime: each once

// generate writes a trace of n dispatches: 8 queues of 2 GPUs, 300 kernels, 16 threads,
// some microseconds each, overlapping. place says which of them is the i-th row.
func generate(t testing.TB, n int, place func(i, n int) int) string {
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
	begin := uint64(30 * day)
	batch := make([]tracedb.Dispatch, 4096)
	for done := 0; done < n; done += len(batch) {
		batch = batch[:min(len(batch), n-done)]
		for i := range batch {
			at := uint64(place(done+i, n))
			start := begin + at*4000 - at%7*5000
			batch[i] = tracedb.Dispatch{
				StartNS: start, EndNS: start + 9000 + at%5000, SubmitNS: start - 6000 - at%11*3000, Index: at / 8,
				Queue: uint32(at%8) + 1, Launch: uint32(at%300) + 1, TID: 4000 + uint32(at/64%16),
			}
		}
		must(t, s.Dispatches(batch))
	}
	must(t, s.End(tracedb.End{Reason: "detached", ArmedNS: begin - day, DetachedNS: begin + uint64(n)*4000 + day}))
	must(t, db.Close())
	return path
}

// BenchmarkExport writes each format of a trace of RTL_EXPORT_DISPATCHES (default
// 1,000,000), and tells the rate, the size and the most memory the process has had:
//
//	RTL_EXPORT_DISPATCHES=10000000 go test -run '^$' -bench Export -benchtime 1x ./internal/export
func BenchmarkExport(b *testing.B) { benchmarkExport(b, Formats[:], inOrder) }

// BenchmarkExportScattered does so for the formats that sort, rows in no order.
func BenchmarkExportScattered(b *testing.B) { benchmarkExport(b, Formats[:2], scattered) }

func benchmarkExport(b *testing.B, formats []Format, place func(i, n int) int) {
	n := 1_000_000
	if text := os.Getenv("RTL_EXPORT_DISPATCHES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must(b, err)
	}
	path := generate(b, n, place)
	for _, f := range formats {
		b.Run(f.Name, func(b *testing.B) { benchmarkFormat(b, f, path, n) })
	}
}

func benchmarkFormat(b *testing.B, f Format, path string, n int) {
	resetPeak(b)
	began, cpu := time.Now(), cpuTime(b)
	for i := range b.N {
		output := filepath.Join(b.TempDir(), fmt.Sprint(i))
		r, err := f.Write(context.Background(), path, output)
		must(b, err)
		if r.Dispatches != int64(n) {
			b.Fatalf("%d of %d dispatches", r.Dispatches, n)
		}
		b.ReportMetric(float64(r.Bytes)/float64(n), "bytes/dispatch")
		must(b, os.Remove(output))
	}
	b.ReportMetric(float64(n*b.N)/time.Since(began).Seconds(), "dispatches/s")
	b.ReportMetric((cpuTime(b)-cpu).Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(peakMB(b), "peak-MB")
}

// cpuTime is what the process has used: on a busy machine it tells more than the rate.
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
	for line := range strings.Lines(string(readFile(b, "/proc/self/status"))) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			must(b, err)
			return float64(kB) / 1000
		}
	}
	b.Fatal("no VmHWM")
	return 0
}
