package truth

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

func TestInventory(t *testing.T) {
	for name, w := range map[string]harness.Workload{
		"stress": harness.Stress(6, 2, 64, "--pace", "20"),
		"serve":  {Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, w)
			before, slots := p.Snapshot(t), p.Slots(t)
			r := p.Begin(t)
			harness.Until(t, "slots are patched", func() bool { return len(p.Slots(t).Differ(slots)) >= 10 })
			p.Active(t)
			r.Interrupt(t)
			run := r.Wait(t)
			if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
				t.Errorf("slots changed: %v", changed)
			}
			p.NothingLeft(t, before)
			st := p.Status(t)
			i := st.Inventory
			if st.State != "dormant" || i.HooksPatched != 0 || i.HooksBuried != 0 || i.Worker != 0 || i.RingBytes != 0 || i.Signals != 0 {
				t.Errorf("state %s, inventory %+v\n%s", st.State, *i, run.Stderr)
			}
			if st.Recorder != 0 {
				t.Errorf("held by recorder %d", st.Recorder)
			}
			p.StillAlive(t)
			p.Quit(t)
		})
	}
}

// settled waits until a target's own memory does not grow any more: HIP 6.4 fills pools for some
// seconds.
func settled(t *testing.T, p *harness.Process) (s harness.Snapshot) {
	t.Helper()
	harness.Until(t, "its memory has settled", func() bool {
		harness.Until(t, "it goes on", p.Dispatches(t, 10000))
		last := s.HostKiB
		s = p.Snapshot(t)
		return s.HostKiB < last+64
	})
	return s
}

// withoutShared excludes the memory that the runtime shares with the GPU: the runtime allocates
// it for pool signals, 2 MB at a time, and keeps it.
func withoutShared(came []string) []string {
	return slices.DeleteFunc(came, func(item string) bool { return strings.HasPrefix(item, "map "+harness.GPUMemory) })
}

// A session releases its resources: many sessions leave as much as the first few. (One arena:
// each of glibc's arenas grows, in steps, if its thread has more in use than ever before.)
func TestMemoryFlat(t *testing.T) {
	cycles := 20
	if testenv.Long() {
		cycles = 500
	}
	const settle = 4
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}, Sim: []string{"MALLOC_ARENA_MAX=1"}})
	before := settled(t, p)
	var first harness.Snapshot
	for i := range cycles + settle {
		if _, err := p.Get("/stats"); err != nil { // the server then forgets its latencies
			t.Fatal(err)
		}
		p.RecordShortly(t, 50*time.Millisecond)
		if i == settle-1 {
			first = p.Snapshot(t)
		}
		if i == 0 || i == settle-1 || i%50 == 0 {
			s := p.Snapshot(t)
			t.Logf("after %d: %d KiB (%d before), %d anonymous mappings (%d)", i+1, s.HostKiB, before.HostKiB, s.Maps["anonymous"], before.Maps["anonymous"])
		}
	}
	last := p.Snapshot(t)
	for _, item := range withoutShared(last.Came(first)) {
		t.Errorf("grew: %s", item)
	}
	if grown := last.HostKiB - first.HostKiB; grown > 2048 {
		t.Errorf("it grew by %d KiB over %d sessions (%d before the first, %d after %d)", grown, cycles, before.HostKiB, first.HostKiB, settle)
	}
	if now, then := last.Maps["anonymous"], first.Maps["anonymous"]; now > then+4 {
		t.Errorf("%d anonymous mappings, %d after %d sessions", now, then, settle)
	}
	t.Logf("%d KiB before, %d after %d sessions, %d after %d", before.HostKiB, first.HostKiB, settle, last.HostKiB, cycles+settle)
	p.StillAlive(t)
	p.Quit(t)
}
