package truth

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// patient has settings with which a starved worker loses nothing, and the detach waits for a
// starved GPU.
var patient = []string{"--memory-copy-trace", "--buffer-policy", "lossless", "--set", "RTL_DRAIN_TIMEOUT_MS=8000"}

// Every recorded copy was requested and made, with these bytes, this direction and these times;
// and every copy requested while recording is recorded, or untimed for the correct reason.
func TestCopies(t *testing.T) {
	p := harness.Start(t, harness.Copier())
	run := p.RecordLast(t, 600*time.Millisecond, 2000, patient...)
	counts := p.Quit(t)
	p.Truth(t).MustHoldOnce(t, counts)
	harness.CompareCopies(t, p, run)
	if strings.Contains(p.Output(), "invalid") {
		t.Errorf("the runtime complains:\n%s", p.Output())
	}
}

// copyDamage is a change to a trace's copies; the comparison must report its kind.
type copyDamage struct {
	what, kind string // kind "": none, it must be let through
	do         func(copies []harness.Copy, victim int) []harness.Copy
}

// change changes only the victim.
func change(how func(*harness.Copy)) func([]harness.Copy, int) []harness.Copy {
	return func(copies []harness.Copy, victim int) []harness.Copy {
		how(&copies[victim])
		return copies
	}
}

var copyDamages = []copyDamage{
	{"nothing", "", change(func(*harness.Copy) {})},
	{"other bytes", "call", change(func(c *harness.Copy) { c.Bytes++ })},
	{"another direction", "call", change(func(c *harness.Copy) { c.Direction ^= 3 })},
	{"another GPU", "call", change(func(c *harness.Copy) { c.To ^= 1 })},
	{"asked for earlier", "call", change(func(c *harness.Copy) { c.SubmitNS -= 1e10 })},
	{"began later", "times", change(func(c *harness.Copy) { c.StartNS += 100 })},
	{"ended later", "times", change(func(c *harness.Copy) { c.EndNS += 100 })},
	{"has no times", "untimed", change(func(c *harness.Copy) { c.Reason = "no-times" })},
	{"of no thread", "thread", change(func(c *harness.Copy) { c.TID = 1 })},
	{"is missing", "call", func(copies []harness.Copy, victim int) []harness.Copy { return slices.Delete(copies, victim, victim+1) }},
	{"is there twice", "call", func(copies []harness.Copy, victim int) []harness.Copy {
		return slices.Insert(copies, victim, copies[victim])
	}},
	{"its thread's first are missing", "missing", func(copies []harness.Copy, victim int) []harness.Copy {
		tid, until := copies[victim].TID, copies[victim].SubmitNS // not only the very first: they may have begun before all were noted
		return slices.DeleteFunc(copies, func(c harness.Copy) bool { return c.TID == tid && c.SubmitNS < until })
	}},
	{"its thread's last are missing", "missing", func(copies []harness.Copy, victim int) []harness.Copy {
		tid, from := copies[victim].TID, copies[victim].SubmitNS
		return slices.DeleteFunc(copies, func(c harness.Copy) bool { return c.TID == tid && c.SubmitNS > from })
	}},
	{"all of its thread are missing", "missing", func(copies []harness.Copy, victim int) []harness.Copy {
		tid := copies[victim].TID
		return slices.DeleteFunc(copies, func(c harness.Copy) bool { return c.TID == tid })
	}},
}

// A comparison that cannot fail proves nothing: the comparison reports every damage to a correct
// trace.
func TestCopyComparison(t *testing.T) {
	p := harness.Start(t, harness.Copier())
	run := p.RecordLast(t, 300*time.Millisecond, 2000, patient...)
	p.Quit(t)
	copies, account := harness.ReadCopies(t, run.Trace)
	session := harness.ReadTrace(t, run.Trace).Sessions[0]
	up := len(copies) / 2
	up += slices.IndexFunc(copies[up:], func(c harness.Copy) bool { return c.Reason == "none" && c.Direction == 1 })
	calls := p.CopyCalls(t)
	for _, d := range copyDamages {
		t.Run(d.what, func(t *testing.T) {
			var found findings
			c := harness.NewCopyComparison(&found, p.CopyTruth(t), calls)
			c.Add(d.do(slices.Clone(copies), up), account, session)
			c.Finish()
			if n := len(c.Faults()); d.kind == "" && n > 0 || d.kind != "" && c.Faults()[d.kind] == 0 {
				t.Errorf("expected %q, found %v", d.kind, c.Faults())
			}
		})
	}
}

// A server's copies through HIP; its own copy kernels are kernels.
func TestServerCopies(t *testing.T) {
	p := harness.Start(t, harness.CopyingServer(4))
	run := p.RecordLast(t, 600*time.Millisecond, 4000, patient...)
	check(t, p, p.TIDs(), run)
	c := harness.CompareCopies(t, p, run)
	c.MustHaveFew(4)
	c.MustHaveRecorded(50)
	if c.Kernels < 25 {
		t.Errorf("%d copies by kernels", c.Kernels)
	}
}

// Without the option target and trace have nothing of it; with it, only profiling stays on, which
// cannot be undone.
func TestCopiesInventory(t *testing.T) {
	// Without copies between host memory: the runtime has a thread for each.
	p := harness.Start(t, harness.Copier("--threads", "6"))
	before, slots := p.Snapshot(t), p.Slots(t)
	hooks := []string{"hsa_amd_memory_async_copy", "hsa_amd_memory_async_copy_rect", "hsa_amd_profiling_async_copy_enable"}
	if newer := "hsa_amd_memory_async_copy_on_engine"; slots[newer] != 0 {
		hooks = append(hooks, newer)
	}
	for _, args := range [][]string{nil, {"--memory-copy-trace"}} {
		r := p.Begin(t, args...)
		p.Active(t)
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
		p.NothingLeft(t, before)
		if left := p.Status(t).Inventory.CopiesProfiled; left != (args != nil) {
			t.Errorf("%v: profiling of copies is left on: %t", args, left)
		}
		if run.Decode() == nil && (harness.SaysOfCopies(t, run.Summary) != nil) != (args != nil) {
			t.Errorf("%v: the summary says of copies: %+v", args, run.Summary.Kinds)
		}
	}
	p.StillAlive(t)
	p.Quit(t)
}

// Repeated attaches and detaches: each copy is in at most one session, and no session has one
// twice.
func TestCopiesReattach(t *testing.T) {
	p := harness.Start(t, harness.Copier())
	var runs []harness.Run
	cycles := 10
	if testenv.Long() {
		cycles = 200
	}
	for range cycles {
		runs = append(runs, p.RecordShortly(t, 60*time.Millisecond, patient...))
	}
	runs = append(runs, p.RecordLast(t, 60*time.Millisecond, 2000, patient...)) // has every kind of copy
	counts := p.Quit(t)
	p.Truth(t).MustHoldOnce(t, counts)
	harness.CompareCopies(t, p, runs...)
}

// The ring is too small, or the application ends during the recording: every copy that was begun
// is in the trace, or counted as missing.
func TestCopiesCutShort(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code failure.ExitCode
	}{
		"small ring": {args: []string{"--buffer-size", "64KiB"}, code: failure.OK},
		"exit":       {code: failure.TargetExited},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, harness.Workload{Program: "copies", Sim: []string{"SOFTGPU_GPUS=2"}})
			r := p.Begin(t, append(c.args, "--memory-copy-trace")...)
			r.Says(t, "✓ attached") // the tool, too: a target that ends before is said to have ended in the attach
			harness.Until(t, "it has copied under the recording", p.Dispatches(t, 5000))
			if c.code == failure.OK {
				r.Interrupt(t)
				r.MustRecord(t)
			}
			counts := p.Quit(t)
			run := r.Wait(t)
			run.MustBe(t, c.code)
			p.Truth(t).MustHoldOnce(t, counts)
			made := p.CopyTruth(t)
			copies, account := harness.ReadCopies(t, run.Trace)
			for _, row := range copies {
				if row.Reason != "none" || row.Direction == 0 { // between host memory: by no GPU
					continue
				}
				if err := made.Made(0, row); err != nil {
					t.Error(err)
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
