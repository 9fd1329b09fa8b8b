package truth

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// randomSettings returns the flags of a session, and the kinds that it must record.
func randomSettings(r *rand.Rand) (args []string, kinds []string) {
	for _, k := range all.Kinds {
		if r.IntN(3) == 0 {
			args, kinds = append(args, "--"+k.Flag), append(kinds, k.ID.String())
		}
	}
	if slices.Contains(kinds, "hip-runtime-api") && r.IntN(2) == 0 {
		args = append(args, "--operations", []string{"hipLaunchKernel", "hipMemcpy*", "hip*"}[r.IntN(3)])
		kinds = nil // a pattern may leave kinds out
	}
	args = append(args, "--buffer-size", fmt.Sprintf("%dMiB", 4<<r.IntN(4)), "--buffer-watermark", fmt.Sprintf("%d%%", 10+r.IntN(90)))
	if r.IntN(2) == 0 {
		args = append(args, "--buffer-policy", "lossless")
	}
	switch r.IntN(4) {
	case 0:
		args = append(args, "--delay", "30ms", "-d", "60ms")
	case 1:
		args = append(args, inPeriods(10+r.IntN(30), 20+r.IntN(40), 1+r.IntN(3))...)
	default:
		args = append(args, "-d", fmt.Sprintf("%dms", 40+r.IntN(80)))
	}
	return args, kinds
}

// Each session of one target has other settings: kinds, functions, buffer, schedule, output. What one
// has changed is not there for the next one.
func TestReattachWithOtherSettings(t *testing.T) {
	sessions := 10
	if testenv.Long() {
		sessions = 100
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}})
	var traces []string
	before := p.Snapshot(t)
	for i := range sessions {
		args, kinds := randomSettings(random)
		trace := filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", i))
		extends := i > 0 && random.IntN(3) == 0
		if extends {
			trace = traces[len(traces)-1]
		} else {
			traces = append(traces, trace)
		}
		args = append(args, "-o", trace, "--append")
		run := p.Begin(t, args...).Wait(t)
		if run.Code != failure.NothingSeen {
			run.MustBe(t, failure.OK)
		}
		recorded := harness.ReadTrace(t, trace).Kinds
		for name := range recorded {
			if !extends && kinds != nil && !slices.Contains(kinds, name) {
				t.Errorf("session %d, %q: %s was recorded", i, args, name)
			}
		}
		for _, name := range kinds {
			if _, ok := recorded[name]; !ok && run.Code == failure.OK {
				t.Errorf("session %d, %q: %s was not recorded", i, args, name)
			}
		}
	}
	harness.Until(t, "it is dormant", func() bool { return p.Status(t).State == "dormant" })
	p.NothingLeft(t, before)
	p.StillAlive(t)
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	for _, trace := range traces {
		c.Add(harness.ReadTrace(t, trace))
	}
	c.Finish(p.TIDs())
	c.MustHaveRecorded(10)
}
