package truth

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// rcclRanks are two groups of four ranks that make the same calls of RCCL; rank 5 is late.
var rcclRanks = []string{"--rccl", "on", "--group", "4", "--late-rank", "5", "--late", "1000", "--layers", "2", "--ahead", "4"}

// A recording from the begin has the communicators' ids: each group of ranks is one of them, whatever ends together.
func TestRanksCommunicators(t *testing.T) {
	t.Parallel()
	needRCCL(t)
	trace, log := runRanks(t, 8, rcclRanks...)
	truth := &rankTruth{t: t, ranks: 8}
	truth.all, truth.kernels = harness.RanksTruth(t, log)
	truth.check(trace)
	mustHaveGroups(t, trace, 4, ranks.ByCommunicator)
}

// runRanks records ranks of one process from their begin.
func runRanks(t *testing.T, n int, args ...string) (trace, log string) {
	t.Helper()
	dir := t.TempDir()
	trace, log = filepath.Join(dir, "t.db"), filepath.Join(dir, "log")
	cmd := exec.Command(testenv.Artefact(t, "rtl-attach"), slices.Concat(
		[]string{"run", "-q", "-o", trace}, rcclCalls, []string{"--", testenv.Artefact(t, "workloads/ranks"), "--ranks", strconv.Itoa(n), "--batches", "40"}, args)...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testenv.Artefact(t, "libsoftgpu.so"), "SOFTGPU_LOG="+log, "SOFTGPU_GPUS="+strconv.Itoa(n), "SOFTGPU_RENDEZVOUS="+filepath.Join(dir, "meet"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return trace, log
}

// The kernels of a graph's replay are of no call of RCCL: they are matched by their times, those between the replays by the
// communicator.
func TestRanksGraphsCommunicators(t *testing.T) {
	t.Parallel()
	needRCCL(t)
	trace, log := runRanks(t, 4, slices.Concat(graphRanks, []string{"--rccl", "on", "--late-rank", "2", "--late", "10000", "--ahead", "4"})...)
	truth := &rankTruth{t: t, ranks: 4}
	truth.all, truth.kernels = harness.RanksTruth(t, log)
	r, whole := truth.check(trace)
	mustMixReplays(t, whole)
	truth.mustBeLate(r, 2, "ran vllm::topk_softmax_kernel (")
	matched := map[ranks.By]int64{}
	for _, g := range r.Ranks.Groups {
		if matched[g.MatchedBy] += g.Matched; len(g.Ranks) != 4 {
			t.Errorf("%+v", g)
		}
	}
	if matched[ranks.ByTimes] < 20 || matched[ranks.ByCommunicator] < 20 {
		t.Errorf("%v", matched)
	}
	t.Log(matched)
}

// A process whose communicators are older than the recording: both groups make the same calls, so their kernels' times decide.
func TestRanksCalls(t *testing.T) {
	t.Parallel()
	needRCCL(t)
	p := harness.StartRanks(t, 8, true, rcclRanks...)
	run := p.Record(t, time.Second, rcclCalls...)
	run.MustBe(t, failure.OK)
	truth := &rankTruth{t: t, ranks: 8}
	truth.all, truth.kernels = p.Truth(t)
	truth.check(run.Trace)
	mustHaveGroups(t, run.Trace, 4, ranks.ByTimes)
}

// mustHaveGroups: there are two groups, of neighbours.
func mustHaveGroups(t *testing.T, trace string, size int, by ranks.By) {
	t.Helper()
	r, err := report.Make(trace, report.Options{Kernels: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Ranks.Groups {
		if g.MatchedBy != by || len(g.Ranks) != size || g.Ranks[size-1]-g.Ranks[0] != size-1 {
			t.Errorf("%v by %s: %d of all ranks", g.Ranks, g.MatchedBy, g.Matched)
		}
	}
	if len(r.Ranks.Groups) != 2 {
		t.Errorf("%d groups", len(r.Ranks.Groups))
	}
}
