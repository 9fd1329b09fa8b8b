package truth

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// What a session with all kinds and the default buffer (64 MiB) may add to the target's resident memory, and what
// the recorder may have.
const (
	sessionKiB  = 160 << 10
	remainsKiB  = 32 << 10 // after the detach: what the server itself has grown by, for the most part
	recorderKiB = 512 << 10
)

// Everything is recorded beside a server: the server answers, each of its kernels is recorded once and as
// it was, all accounts add up, and memory is bounded.
func TestAllKindsWithServe(t *testing.T) {
	needCalls(t)
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "4", "--streams", "6", "--rate", "50", "--kernels", "16"}})
	before, slots := p.Snapshot(t), p.Slots(t)
	answers(t, p)
	harness.Until(t, "it serves alone", p.Dispatches(t, 8000))
	alone := answers(t, p)

	r := p.Begin(t, "--sys-trace", "--max-size", "0")
	r.Says(t, "✓ attached")
	duration := 4 * time.Second
	if testenv.Long() {
		duration = 10 * time.Minute
	}
	var target, recorder int
	over, enough := afterSome(duration), p.Dispatches(t, 8000)
	for !over() {
		target = max(target, p.Snapshot(t).RSSKiB)
		recorder = max(recorder, r.ResidentKiB(t))
		p.StillAlive(t)
	}
	harness.Until(t, "it serves while it is recorded", enough)
	recorded := answers(t, p)
	r.Interrupt(t)
	run := r.MustRecord(t)
	after := p.Snapshot(t)
	t.Logf("the server's requests: %v alone, %v recorded; its memory: %d KiB before, at most %d KiB during, %d KiB after; the recorder's: at most %d KiB",
		alone, recorded, before.RSSKiB, target, after.RSSKiB, recorder)
	if target > before.RSSKiB+sessionKiB || after.HostKiB > before.HostKiB+remainsKiB || recorder > recorderKiB {
		t.Errorf("memory: %d KiB before, %d KiB during, %d of %d KiB not shared with the GPU after, recorder %d KiB",
			before.RSSKiB, target, after.HostKiB, before.HostKiB, recorder)
	}
	p.NothingLeft(t, before)
	if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
		t.Errorf("slots changed: %v", changed)
	}
	check(t, p, p.TIDs(), run).MustHaveRecorded(4000)
	for _, wrong := range harness.ReadTrace(t, run.Trace).CheckKinds(kindNames(), false) {
		t.Error(wrong)
	}
}

func kindNames() (names []string) {
	for _, k := range all.Kinds {
		names = append(names, k.ID.String())
	}
	return names
}

// latency is how long the server's requests took since it was last asked.
type latency struct {
	P50NS, P99NS int64
}

func (l latency) String() string {
	return fmt.Sprintf("p50 %v, p99 %v", time.Duration(l.P50NS), time.Duration(l.P99NS))
}

func answers(t *testing.T, p *harness.Process) (l latency) {
	t.Helper()
	var said struct {
		P50 int64 `json:"p50_ns"`
		P99 int64 `json:"p99_ns"`
	}
	text, err := p.Get("/stats")
	if err == nil {
		err = json.Unmarshal([]byte(text), &said)
	}
	if err != nil {
		t.Fatal(err)
	}
	return latency{said.P50, said.P99}
}
