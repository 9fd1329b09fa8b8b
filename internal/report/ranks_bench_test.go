package report

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// BenchmarkRanks reports on a trace of RTL_REPORT_DISPATCHES (default 1,000,000) of eight GPUs, of which each eighth is of
// a collective: with what compares the ranks, and, by names that do not match, without.
func BenchmarkRanks(b *testing.B) {
	path := collectivesTrace(b, tracetest.Count(b, "RTL_REPORT_DISPATCHES"))
	none, err := collectives.Parse(strings.NewReader("nothing"))
	must(b, err)
	for name, names := range map[string]*collectives.Patterns{"without": none, "with": nil} {
		b.Run(name, func(b *testing.B) {
			meter := tracetest.Begin(b)
			for b.Loop() {
				r, err := Make(path, Options{Kernels: 10, Collectives: names})
				must(b, err)
				if (r.Ranks != nil) != (names == nil) {
					b.Fatalf("%+v", r.Ranks)
				}
			}
			meter.Report()
		})
	}
}

// collectivesTrace writes a trace in the order of ends: rank 3 is late to each collective.
func collectivesTrace(b *testing.B, n int) string {
	b.Helper()
	const gpus, kernels, late = 8, 8, 3
	path := filepath.Join(b.TempDir(), "trace.db")
	db, err := tracedb.Create(tracedb.Place{Path: path})
	must(b, err)
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	must(b, err)
	for id := range uint32(gpus) {
		must(b, s.Agent(tracedb.Agent{ID: id + 1, GPU: id, Name: "gfx942", BDF: id << 8}), s.Queue(tracedb.Queue{ID: id + 1, Agent: id + 1, HSAID: uint64(id)}))
	}
	for id := range uint32(kernels) {
		symbol := "gemm" + string(rune('0'+id))
		if id == kernels-1 {
			symbol = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
		}
		must(b, s.Launch(tracedb.Launch{ID: id + 1, Agent: 1, Symbol: symbol}))
	}
	at, batch := uint64(tracetest.ArmedNS), []tracedb.Dispatch{}
	for done := 0; done < n; done += gpus * kernels {
		batch = batch[:0]
		for k := range uint32(kernels) {
			for gpu := range uint32(gpus) {
				start := at + uint64(k)*10_000 + uint64(gpu*100)
				end := start + 9000
				if gpu == late {
					start, end = start+8000, end+8000
				}
				if k == kernels-1 {
					end = at + (kernels-1)*10_000 + 20_000
				}
				batch = append(batch, tracedb.Dispatch{StartNS: start, EndNS: end, SubmitNS: start - 5000, Index: uint64(done/gpus) + uint64(k), Queue: gpu + 1, Launch: k + 1, TID: 4000 + gpu})
			}
		}
		must(b, s.Dispatches(batch))
		at += 110_000
	}
	must(b, s.End(tracedb.End{Reason: "detached", ArmedNS: tracetest.ArmedNS, DetachedNS: at}), db.Close())
	return path
}
