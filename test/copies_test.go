package test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

const copyKinds = 10

func copier(log string) harness.Workload {
	return harness.Workload{Program: "copies", Args: []string{"--log", log, "--pace", "50"}, Sim: []string{"SOFTGPU_GPUS=2"}}
}

// What one thread asked for is in the trace: all calls of a stretch that begins
// with the first one after the attach, each with what it asked for.
func sameCalls(t *testing.T, calls []harness.CopyCall, rows []harness.Copy, armedNS int64) []harness.CopyCall {
	t.Helper()
	first := harness.CallAt(calls, rows[0].SubmitNS)
	if first > 0 && calls[first-1].BeforeNS > armedNS {
		t.Errorf("%s: called at %d, after the attach, and not recorded", calls[0].Kind, calls[first-1].BeforeNS)
	}
	if first+len(rows) > len(calls) {
		t.Fatalf("%s: %d recorded, %d called since", calls[0].Kind, len(rows), len(calls)-first)
	}
	calls = calls[first : first+len(rows)]
	for i, c := range calls {
		r := rows[i]
		if r.SubmitNS < c.BeforeNS-1000 || r.SubmitNS > c.AfterNS+1000 || r.Bytes != c.Bytes || r.Direction != c.Direction || r.From != c.From || r.To != c.To {
			t.Fatalf("%s: call %d of %d was %+v, recorded %+v", c.Kind, i, len(rows), c, r)
		}
	}
	return calls
}

// Every copy that is recorded was asked for and made, with these bytes, this
// direction and these times; and every one that was asked for while recording is
// recorded, or untimed for the reason that it must have.
func TestCopies(t *testing.T) {
	log := filepath.Join(t.TempDir(), "calls")
	p := harness.Start(t, copier(log))
	run := p.RecordLast(t, 600*time.Millisecond, 0, "--memory-copy-trace")
	counts := p.Quit(t)
	p.Truth(t).MustHoldOnce(t, counts)
	made := p.CopyTruth(t)
	calls := harness.ReadCopyCalls(t, log)
	copies, account := harness.ReadCopies(t, run.Trace)
	armedNS := harness.ReadTrace(t, run.Trace).Sessions[0].ArmedNS
	byThread := map[int64][]harness.Copy{}
	for _, c := range copies {
		byThread[c.TID] = append(byThread[c.TID], c)
	}
	if len(byThread) != copyKinds {
		t.Fatalf("copies of %d threads, expected %d", len(byThread), copyKinds)
	}
	for tid, rows := range byThread {
		asked := sameCalls(t, calls[tid], rows, armedNS)
		timed := 0
		for i, r := range rows {
			if r.Reason == "none" {
				timed++
				compareCopy(t, made, asked[i], r)
				continue
			}
			if want := reasonOf(asked[i].Kind); r.Reason != want {
				t.Errorf("%s: untimed: %s", asked[i].Kind, r.Reason)
			}
		}
		t.Logf("%-7s %d of %d timed", asked[0].Kind, timed, len(rows))
	}
	harness.MustSayCopies(t, run.Summary, copies, account)
	if account.Unexplained != 0 {
		t.Errorf("%+v", account)
	}
	if strings.Contains(p.Output(), "invalid") {
		t.Errorf("the runtime complains:\n%s", p.Output())
	}
}

// reasonOf is why copies of a kind have no times: the runtime takes none of those
// between host memory, and several on one signal overwrite each other's (unless
// the first has ended before the second is asked for).
func reasonOf(kind string) string {
	switch kind {
	case "shared":
		return "shared-signal"
	case "host":
		return "no-times"
	}
	return "none"
}

func compareCopy(t *testing.T, made harness.CopyLog, asked harness.CopyCall, r harness.Copy) {
	t.Helper()
	if asked.Kind == "host" {
		t.Errorf("%s has times: %+v", asked.Kind, r)
	}
	was, found := made.Take(asked.Signal, r.StartNS, r.EndNS)
	if !found {
		t.Errorf("%s: no copy had these times: %+v", asked.Kind, r)
		return
	}
	node := r.From
	if node < 0 {
		node = r.To
	}
	if int64(was.Node) != node || was.Bytes != 0 && int64(was.Bytes) != r.Bytes {
		t.Errorf("%s: %+v, the GPU made %v with %d bytes", asked.Kind, r, was, was.Bytes)
	}
}

// A server's copies through HIP; its own copy kernels are kernels.
func TestServerCopies(t *testing.T) {
	const threads = 4
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "4", "--streams", "4"}, Sim: []string{"SOFTGPU_GPUS=2"}})
	run := p.RecordLast(t, 600*time.Millisecond, 0, "--memory-copy-trace")
	check(t, p, p.TIDs(), run)
	made := p.CopyTruth(t)
	copies, account := harness.ReadCopies(t, run.Trace)
	s := harness.ReadTrace(t, run.Trace).Sessions[0]
	for _, r := range copies {
		was, found := made.Take(0, r.StartNS, r.EndNS)
		if r.Reason != "none" || !found || int64(was.Bytes) != r.Bytes || int64(was.Node) != max(r.From, r.To) || r.Direction != 1 && r.Direction != 2 {
			t.Errorf("%+v, the GPU made %v (%d bytes)", r, was, was.Bytes)
		}
	}
	missing := 0
	for _, records := range made {
		for _, r := range records {
			if int64(r.StartNS) > s.ArmedNS && int64(r.EndNS) < copies[len(copies)-1].SubmitNS {
				missing++
			}
		}
	}
	if missing > threads { // one that each had asked for before the attach
		t.Errorf("%d copies were made and not recorded", missing)
	}
	harness.MustSayCopies(t, run.Summary, copies, account)
	if len(copies) < 50 || account.Unexplained != 0 {
		t.Errorf("%d copies recorded, %+v", len(copies), account)
	}
}

// Without the option nothing of it is in the target, nor in the trace; with it,
// nothing is left but the profiling that cannot be undone.
func TestCopiesInventory(t *testing.T) {
	w := copier(filepath.Join(t.TempDir(), "calls"))
	w.Args = append(w.Args, "--threads", "6") // without those between host memory: the runtime has a thread for each
	p := harness.Start(t, w)
	before, slots := p.Snapshot(t), p.Slots(t)
	hooks := []string{"hsa_amd_memory_async_copy", "hsa_amd_memory_async_copy_rect", "hsa_amd_profiling_async_copy_enable"}
	for _, args := range [][]string{nil, {"--memory-copy-trace"}} {
		r := p.Begin(t, args...)
		active(t, p)
		now := p.Slots(t)
		for _, hook := range hooks {
			if patched := now[hook] != slots[hook]; patched != (args != nil) {
				t.Errorf("%v: %s patched: %t", args, hook, patched)
			}
		}
		r.Interrupt(t)
		run := r.Wait(t)
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("slots changed: %v", changed)
		}
		inventory(t, p, before)
		if left := p.Status(t).Inventory.CopiesProfiled; left != (args != nil) {
			t.Errorf("%v: profiling of copies is left on: %t", args, left)
		}
		if run.Decode() == nil && (run.Summary.Copies != nil) != (args != nil) {
			t.Errorf("%v: the summary says of copies: %+v", args, run.Summary.Copies)
		}
	}
	p.StillAlive(t)
	p.Quit(t)
}

// Attach and detach again and again: each copy is in one session at most, and no
// session has one twice.
func TestCopiesReattach(t *testing.T) {
	log := filepath.Join(t.TempDir(), "calls")
	p := harness.Start(t, copier(log))
	var traces []string
	cycles := 10
	if harness.Long() {
		cycles = 200
	}
	for range cycles {
		traces = append(traces, p.Record(t, 60*time.Millisecond, "--memory-copy-trace", "--buffer-size", "4MiB").Trace)
	}
	counts := p.Quit(t)
	p.Truth(t).MustHoldOnce(t, counts)
	made := p.CopyTruth(t)
	calls := harness.ReadCopyCalls(t, log)
	total := 0
	for _, trace := range traces {
		copies, account := harness.ReadCopies(t, trace)
		armedNS := harness.ReadTrace(t, trace).Sessions[0].ArmedNS
		byThread := map[int64][]harness.Copy{}
		for _, c := range copies {
			byThread[c.TID] = append(byThread[c.TID], c)
		}
		for tid, rows := range byThread {
			for i, asked := range sameCalls(t, calls[tid], rows, armedNS) {
				if rows[i].Reason == "none" {
					total++
					compareCopy(t, made, asked, rows[i])
				}
			}
		}
		if account.Unexplained != 0 {
			t.Errorf("%+v", account)
		}
	}
	t.Logf("%d copies timed in %d sessions", total, cycles)
}

// The ring is too small, or the application ends while it is recorded: every copy
// that was begun is in the trace, or owned up to.
func TestCopiesCutShort(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		quit bool
	}{
		"small ring": {args: []string{"--buffer-size", "64KiB"}},
		"exit":       {quit: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, harness.Workload{Program: "copies", Sim: []string{"SOFTGPU_GPUS=2"}})
			r := p.Begin(t, append(c.args, "--memory-copy-trace")...)
			active(t, p)
			harness.Until(t, "it has copied under the recording", p.Dispatches(t, 5000))
			if !c.quit {
				r.Interrupt(t)
				r.MustRecord(t)
			}
			counts := p.Quit(t)
			run := r.Wait(t)
			p.Truth(t).MustHoldOnce(t, counts)
			made := p.CopyTruth(t)
			copies, account := harness.ReadCopies(t, run.Trace)
			for _, row := range copies {
				if row.Reason != "none" {
					continue
				}
				if was, found := made.Take(0, row.StartNS, row.EndNS); !found || was.Bytes != 0 && int64(was.Bytes) != row.Bytes {
					t.Errorf("%+v, the GPU made %v with %d bytes", row, was, was.Bytes)
				}
			}
			var lost int64
			for _, l := range harness.ReadTrace(t, run.Trace).Losses {
				lost += l.Records
			}
			if account.Unexplained < 0 || account.Unexplained > lost || len(copies) < 100 {
				t.Errorf("%d copies, %+v, %d records lost", len(copies), account, lost)
			}
			t.Logf("%+v, %d records lost", account, lost)
		})
	}
}
