package truth

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// randomFilter returns a session's filter, and which kernel names it leaves out; nil: it leaves them out by something else, or none.
func randomFilter(r *rand.Rand) (args []string, excludes func(string) bool) {
	include, exclude := regexp.MustCompile("attention|elementwise|gemm|decode"), regexp.MustCompile("silu_and_mul|rms_norm|Cijk_Ailk")
	includes, excludesThem := []string{"--kernel-include-regex", include.String()}, []string{"--kernel-exclude-regex", exclude.String()}
	switch r.IntN(8) {
	case 0:
		return includes, func(name string) bool { return !include.MatchString(name) }
	case 1:
		return excludesThem, exclude.MatchString
	case 2:
		return slices.Concat(includes, excludesThem), func(name string) bool { return !include.MatchString(name) || exclude.MatchString(name) }
	case 3:
		return []string{"--kernel-iteration-range", fmt.Sprintf("[%d-%d]", 1+r.IntN(3), 5+r.IntN(30))}, nil
	case 4:
		return []string{"--gpu", "0"}, nil // the target has no other
	default:
		return nil, nil
	}
}

// settledTrace is a trace of one session or more. Which kernel names are not in it is known if all its sessions have the same filter.
type settledTrace struct {
	path, filter string
	sessions     int
	excludes     func(string) bool
}

// add notes a session's filter.
func (s *settledTrace) add(filter []string, excludes func(string) bool) {
	text := strings.Join(filter, " ")
	if s.sessions == 0 {
		s.filter, s.excludes = text, excludes
	} else if s.filter != text {
		s.excludes = nil
	}
	s.sessions++
}

// Each session of one target has other settings: kinds, functions, filters, buffer, schedule, output. What one
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
	var traces []*settledTrace
	nothing, filters := 0, 0
	before := p.Snapshot(t)
	for i := range sessions {
		args, kinds := randomSettings(random)
		filter, excludes := randomFilter(random)
		extends := i > 0 && random.IntN(3) == 0
		if !extends {
			traces = append(traces, &settledTrace{path: filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", i))})
		}
		trace := traces[len(traces)-1]
		trace.add(filter, excludes)
		args = slices.Concat(args, filter, []string{"-o", trace.path, "--append"})
		run := p.Begin(t, args...).Wait(t)
		if run.Code != failure.NothingSeen {
			run.MustBe(t, failure.OK)
		} else {
			nothing++
		}
		filters += min(len(filter), 1)
		recorded := harness.ReadTrace(t, trace.path).Kinds
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
		c.Excludes = trace.excludes
		c.Add(harness.ReadTrace(t, trace.path))
	}
	c.Finish(p.TIDs())
	c.MustHaveRecorded(10)
	t.Logf("%d sessions in %d traces, %d with a filter, %d without a kernel; %d kernels filtered out", sessions, len(traces), filters, nothing, c.Filtered)
}
