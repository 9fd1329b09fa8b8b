package calls

import (
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// TestNotLinked: a session is not linked if others than the callers of HIP submit its kernels.
func TestNotLinked(t *testing.T) {
	const app, other, own = 7, 8, 9
	type threads map[uint32]int
	for name, c := range map[string]struct {
		launches, further, kernels threads // by thread
		notLinked                  bool
	}{
		"by the caller":                     {threads{app: 4}, nil, threads{app: 4}, false},
		"by HIP's own thread":               {threads{app: 4}, nil, threads{own: 4}, true},
		"of two threads":                    {threads{app: 4, other: 4}, nil, threads{own: 8}, true},
		"some by the caller":                {threads{app: 40}, nil, threads{own: 37, app: 3}, true},
		"by a caller of something else":     {threads{app: 4}, threads{own: 1}, threads{own: 4}, false},
		"and a program of HSA beside HIP":   {threads{app: 4}, nil, threads{app: 4, own: 400}, false},
		"no launch":                         {nil, threads{app: 4}, threads{own: 4}, false},
		"no kernel":                         {threads{app: 4}, nil, nil, false},
		"threads that are not known":        {threads{app: 4}, nil, threads{0: 4}, false},
		"launches of threads not known, by": {threads{0: 4}, nil, threads{own: 4}, false},
	} {
		t.Run(name, func(t *testing.T) {
			db, path := create(t)
			for pid := range uint32(2) { // the first session is always linked
				s := begin(t, db, 42+pid)
				must(t, s.Agent(tracedb.Agent{ID: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}), s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "k"}))
				all := map[string]threads{"hipLaunchKernel": c.launches, "hipLaunchHostFunc": c.further}
				kernels := c.kernels
				if pid == 0 {
					all, kernels = map[string]threads{"hipLaunchKernel": {app: 1}}, threads{app: 1}
				}
				for function, of := range all {
					for tid, n := range of {
						must(t, s.Kind(n, func(w tracedb.KindWriter) error {
							return Store(w, ring.KindHIPRuntimeAPI, slices.Repeat([]Call{call(t, function, tid, 10, 20)}, n))
						}))
					}
				}
				for tid, n := range kernels {
					must(t, s.Dispatches(slices.Repeat([]tracedb.Dispatch{{Queue: 1, Launch: 1, TID: tid, SubmitNS: 15, StartNS: 30, EndNS: 40}}, n)))
				}
				must(t, s.End(tracedb.End{Kinds: []tracedb.KindCoverage{{Kind: "hip-runtime-api"}}}))
			}
			must(t, db.Close())
			tr, err := traceread.Open(t.Context(), path)
			must(t, err)
			defer tr.Close()
			section, err := HIPRuntime.Read(&kind.Reading{Ctx: t.Context(), Trace: tr, Window: traceread.Always})
			must(t, err)
			got, said := section.Value.(*Report).NotLinked, false
			for _, line := range section.Lines {
				said = said || strings.HasSuffix(line.Text, "calls are not linked to kernels in 1 session of 2")
			}
			if slices.Equal(got, []int64{2}) != c.notLinked || said != c.notLinked {
				t.Errorf("%v; said: %t", got, said)
			}
		})
	}
}
