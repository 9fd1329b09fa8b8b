package export

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const collectiveSteps = 30

// collectiveSample is a trace of two processes with a GPU each that enter collectives; the second one is 40 µs late.
func collectiveSample(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := tracedb.Create(tracedb.Place{Path: path})
	must(t, err)
	const begin = 1_000_000_000
	for rank := range uint32(2) {
		s, err := db.Begin(tracedb.SessionInfo{PID: 100 + rank, Command: "worker", Host: "node"})
		must(t, err)
		must(t, errors.Join(s.Agent(tracedb.Agent{ID: 1, GPU: rank, BDF: rank << 8}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}),
			s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "gemm"}), s.Launch(tracedb.Launch{ID: 2, Agent: 1, Symbol: "ncclDevKernel_Generic"})))
		var all []tracedb.Dispatch
		for i := range uint64(collectiveSteps) {
			at := begin + i*200_000
			all = append(all,
				tracedb.Dispatch{Queue: 1, Launch: 1, TID: 7, Index: 2 * i, StartNS: at, EndNS: at + 20_000 + uint64(rank)*40_000, SubmitNS: at - 100},
				tracedb.Dispatch{Queue: 1, Launch: 2, TID: 7, Index: 2*i + 1, StartNS: at + 21_000 + uint64(rank)*40_000, EndNS: at + 80_000, SubmitNS: at - 50})
		}
		must(t, errors.Join(s.Dispatches(all), s.End(tracedb.End{ArmedNS: begin, DetachedNS: begin + 200_000*collectiveSteps})))
	}
	must(t, db.Close())
	return path
}

// Perfetto has a slice for each kernel of a collective, with an arrow through the kernels of one, its skew, its wait and its last rank.
func TestCollectivesInPerfetto(t *testing.T) {
	data, _ := exported(t, "pftrace", collectiveSample(t))
	slices := map[number]int{} // by the number of their arrow
	for _, p := range decodePerfetto(t, data) {
		if e := p.TrackEvent; e != nil && e.Type == typeBegin && len(e.FlowIDs) == 1 && uint64(e.FlowIDs[0])>>56 == 0xff {
			slices[e.FlowIDs[0]]++
		}
	}
	if len(slices) != collectiveSteps {
		t.Errorf("%d collectives", len(slices))
	}
	for flow, n := range slices {
		if n != 2 {
			t.Errorf("arrow %x through %d kernels", flow, n)
		}
	}
	tracks := 0
	v := viewPerfetto(t, data)
	for uuid, all := range v.slices {
		if v.tracks[uuid].Name != "collectives" {
			continue
		}
		tracks++
		for _, s := range all {
			wait := s.args["wait_ns"]
			if s.name != "ncclDevKernel_Generic" || s.args["skew_ns"] != int64(40_000) || wait != int64(40_000) && wait != int64(0) {
				t.Errorf("%+v", s)
			}
		}
		if len(all) != collectiveSteps {
			t.Errorf("%d slices", len(all))
		}
	}
	if tracks != 2 {
		t.Errorf("%d tracks", tracks)
	}
}

// Chrome has them as slices; kernels with other names only if they are asked for.
func TestCollectivesInChrome(t *testing.T) {
	path := collectiveSample(t)
	for names, want := range map[string]int{"": 2 * collectiveSteps, "nothing": 0, "gemm": 2 * collectiveSteps} {
		format, _ := FormatNamed("chrome")
		if names != "" {
			p, err := collectives.Parse(strings.NewReader(names))
			must(t, err)
			format = format.WithCollectives(p)
		}
		output := filepath.Join(t.TempDir(), "out.gz")
		_, err := format.Write(t.Context(), path, output, 0)
		must(t, err)
		zip, err := gzip.NewReader(bytes.NewReader(readFile(t, output)))
		must(t, err)
		var got struct {
			TraceEvents []struct {
				Cat, Name string
				Args      struct {
					Last string `json:"last_rank"`
				}
			}
		}
		must(t, json.NewDecoder(zip).Decode(&got))
		n := 0
		for _, e := range got.TraceEvents {
			if e.Cat == "collective" {
				n++
				if names == "" && e.Args.Last != "GPU 1 (pid 101)" {
					t.Errorf("%+v", e)
				}
			}
		}
		if n != want {
			t.Errorf("%q: %d slices, want %d", names, n, want)
		}
	}
}
