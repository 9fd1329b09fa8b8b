package truth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Attach, detach, attach … under load: one program, many traces, one log of the simulator.
func TestReattach(t *testing.T) {
	cycles, pace := 12, "300"
	if testenv.Long() {
		cycles, pace = 500, "200"
	}
	for name, w := range map[string]harness.Workload{
		"stress": harness.Stress(9, 2, 64, "--pace", pace),
		"serve":  {Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, w)
			runs := p.Reattach(t, cycles)
			check(t, p, p.TIDs(), runs...).MustHaveRecorded(50 * cycles)
		})
	}
}

// A payload stays with the runtime that it found first, and says so: another one, even
// if it is idle, would pass for the one in use. libc stands for it.
func TestReattachToAnotherRuntime(t *testing.T) {
	p := harness.Start(t, harness.Stress(3, 2, 64, "--pace", "20"))
	runs := []harness.Run{p.RecordUntil(t, time.Second, 1000)}
	refused := p.TryRecord(t, 100*time.Millisecond, "--set", "RTL_HSA_LIBRARY="+p.Library(t, "libc.so.6"))
	if refused.Code == failure.OK || !strings.Contains(refused.Stderr, "the resident payload is bound to ") {
		t.Errorf("exit code %d\n%s", refused.Code, refused.Stderr)
	}
	runs = append(runs, p.RecordUntil(t, time.Second, 1000, "--set", "RTL_HSA_LIBRARY="+p.Library(t, "libhsa-runtime64")))
	check(t, p, p.TIDs(), runs...)
}

// Attach from the first moment on, while the program loads and initialises: a refusal does not
// change the program, and recording works as soon as there is a runtime.
func TestEarly(t *testing.T) {
	p := harness.StartCold(t, harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}})
	var runs []harness.Run
	codes := map[failure.ExitCode]int{}
	harness.Until(t, "it can be recorded", func() bool {
		run := p.TryRecord(t, 30*time.Millisecond)
		codes[run.Code]++
		switch run.Code {
		case failure.OK, failure.NothingSeen:
			runs = append(runs, run)
		case failure.Failed, failure.Unsuitable:
		default:
			t.Fatalf("exit code %d\n%s", run.Code, run.Stderr)
		}
		return codes[failure.OK] == 3
	})
	t.Logf("exit codes %v", codes)
	p.Ready(t)
	p.StillAlive(t)
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	for _, run := range runs {
		c.Add(harness.ReadTrace(t, run.Trace))
	}
	c.Finish(p.TIDs())
}

// The application repeatedly shuts its runtime down and starts it again during one recording: the
// tool continues in further sessions of one trace.
func TestShutDown(t *testing.T) {
	const runtimes = 5
	alone := harness.Start(t, harness.Stress(4, 2, 64, "--pace", "10", "--seconds", "1"))
	alone.Finish(t)
	w := harness.Stress(4, 2, 64, "--pace", "10", "--cycles", fmt.Sprint(runtimes))
	w.Args = append(w.Args, "--seconds", "5")
	p := harness.Start(t, w)
	run := p.Begin(t).Wait(t)
	run.MustBe(t, failure.TargetExited)
	counts := p.Finish(t)
	for _, warning := range warnings(p) {
		if !slices.Contains(warnings(alone), warning) {
			t.Errorf("the runtime complains, and does not without a recording: %s", warning)
		}
	}
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	c.Producers = false // each runtime has threads of its own
	tr := harness.ReadTrace(t, run.Trace)
	c.Add(tr)
	c.Finish(nil)
	c.MustHaveRecorded(200)
	if n := len(tr.Sessions); n < 2 || n > runtimes {
		t.Errorf("%d sessions in the trace, the application had %d runtimes\n%s", n, runtimes, run.Stderr)
	}
	t.Logf("%d sessions for %d runtimes", len(tr.Sessions), runtimes)
}

// warnings returns the lines by which the runtime complains. ROCr 7.2 has one of its own
// in hsa_shut_down wherever there was a queue: that it leaks one signal.
func warnings(p *harness.Process) (found []string) {
	for line := range strings.Lines(p.Output()) {
		if strings.Contains(line, "Warning") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// The application exits normally: the trace has everything.
func TestExit(t *testing.T) {
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "100"))
	r := p.Begin(t)
	r.Drains(t)
	harness.Until(t, "it has dispatched under the recording", p.Dispatches(t, 5000))
	counts := p.Quit(t)
	run := r.Wait(t)
	run.MustBe(t, failure.TargetExited)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	c.Add(harness.ReadTrace(t, run.Trace))
	c.Finish(nil)
	c.MustHaveRecorded(10)
}

// The application is killed: the trace is correct up to that moment.
func TestKill(t *testing.T) {
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "100"))
	r := p.Begin(t)
	r.Says(t, "✓ attached")
	harness.Until(t, "it has dispatched under the recording", p.Dispatches(t, 5000))
	p.Kill()
	run := r.Wait(t)
	run.MustBe(t, failure.TargetExited)
	c := harness.Compare(t, p.Truth(t))
	c.Killed = true
	c.Add(harness.ReadTrace(t, run.Trace))
	c.Finish(nil)
	c.MustHaveRecorded(50)
}

// completeNS is how long the time is that a trace, which is being written, says to be complete.
func completeNS(t *testing.T, trace string) (ns int64) {
	t.Helper()
	if harness.SizeInHeader(trace) == 0 {
		return 0
	}
	db, err := tracedb.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT coalesce(max(recorded_until_ns - armed_ns), 0) FROM rtl_session").Scan(&ns); err != nil {
		t.Fatal(err)
	}
	return ns
}

// The recorder is killed: everything that it had written is readable and correct.
func TestRecorderKilled(t *testing.T) {
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "100"))
	r := p.Begin(t, "--set", "RTL_RECORDER_TIMEOUT_MS=1000")
	p.Active(t)
	harness.Until(t, "a part of the trace is complete", func() bool { return completeNS(t, r.Trace) > int64(300*time.Millisecond) })
	r.Kill()
	harness.Until(t, "the payload has detached by itself", func() bool { return p.Status(t).State == "dormant" })
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	c.Killed = true
	trace := harness.ReadTrace(t, r.Trace)
	c.Add(trace)
	if n := c.MustBeCompleteUntil(t, trace); n < 200 {
		t.Errorf("%d kernels ended before the moment until which the trace is complete", n)
	}
	c.Finish(nil)
	c.MustHaveRecorded(200)
}

// The smallest ring under full load. By default the losses are counted exactly: recorded, untimed
// and lost dispatches are all that ran. Lossless loses nothing until its memory limit.
func TestSmallRing(t *testing.T) {
	for name, args := range map[string][]string{
		"discard":  {"--buffer-policy", "discard"},
		"lossless": {"--buffer-policy", "lossless"},
		"limit":    {"--buffer-policy", "lossless", "--set", "RTL_BUFFER_LIMIT=65536"},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, harness.Stress(10, 2, 256)) // of every kind
			run := p.RecordLast(t, 500*time.Millisecond, 1000, append(args, "--buffer-size", "64KiB")...)
			c := check(t, p, p.TIDs(), run)
			c.MustHaveRecorded(200)
			if lossless := name == "lossless"; lossless && c.Lost > 0 {
				t.Errorf("%d records lost\n%s", c.Lost, run.Stderr)
			}
		})
	}
}

// TestLateRecorder: the application creates and destroys queues while the recorder is stopped and
// the ring is full. The payload writes their ends when there is room again.
func TestLateRecorder(t *testing.T) {
	p := harness.Start(t, harness.Stress(8, 2, 256, "--pace", "100"))
	r := p.Begin(t, "-d", "1m", "--buffer-size", "64KiB", "--set", "RTL_RECORDER_TIMEOUT_MS=60000")
	p.Active(t)
	r.Drains(t)
	lost := func() uint64 { return p.Status(t).Counters["records_lost"] }
	r.Stop(t)
	harness.Until(t, "records are lost", func() bool { return lost() > 0 })
	from := p.Status(t).Counters["queues_seen"]
	harness.Until(t, "a hundred queues have come since", func() bool { return p.Status(t).Counters["queues_seen"] > from+100 })
	r.Continue(t)
	r.Interrupt(t)
	run := p.MustRecordLast(t, r)
	check(t, p, p.TIDs(), run)
}

// The recorder stops reading: the payload keeps records for a while, detaches by itself, and the
// records that were never read are counted.
func TestLosslessWithoutReader(t *testing.T) {
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "100"))
	r := p.Begin(t, "--buffer-size", "64KiB", "--buffer-policy", "lossless", "--set", "RTL_RECORDER_TIMEOUT_MS=1000")
	p.Active(t)
	r.Drains(t)
	r.Stop(t)
	harness.Until(t, "the payload has detached by itself", func() bool { return p.Status(t).State == "dormant" })
	r.Continue(t)
	run := r.Wait(t)
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	c.Add(harness.ReadTrace(t, run.Trace))
	c.Finish(p.TIDs())
	c.MustHaveRecorded(200)
	if c.Lost == 0 {
		t.Errorf("nothing was lost: the test proves nothing\n%s", run.Stderr)
	}
}

// A recorder gets no processor, or waits for its disk, while the payload writes its last records:
// with lossless it gets all of them.
func TestLosslessLateReader(t *testing.T) {
	p := harness.Start(t, harness.Stress(10, 2, 256, "--pace", "100"))
	r := p.Begin(t, "-d", "1s", "--buffer-size", "64KiB", "--buffer-policy", "lossless")
	r.Says(t, "detaching")
	r.Stop(t)
	t.Logf("stopped when the payload was %s", p.Status(t).State)
	time.Sleep(late) // is what is tested
	r.Continue(t)
	run := p.MustRecordLast(t, r)
	c := check(t, p, p.TIDs(), run)
	if c.Lost > 0 {
		t.Errorf("%d records lost\n%s", c.Lost, run.Stderr)
	}
}

const late = 2 * time.Second

// If a runtime ends during an attach, the attach waits for the next one. An attach between two
// runtimes is refused: 6.4 takes long to start.
func TestAttachBesideShutDown(t *testing.T) {
	w := harness.Stress(4, 2, 64, "--pace", "10", "--cycles", "8000") // more than the test lives to see
	w.Args = append(w.Args, "--seconds", "400")
	p := harness.Start(t, w)
	const attaches = 20
	met, between, never, tried := 0, 0, 0, 0
	harness.Until(t, "a runtime has been recorded, and enough attaches were tried", func() bool {
		run := p.TryRecord(t, 10*time.Millisecond, "-v")
		switch {
		case run.Code == failure.NothingSeen:
		case run.Code == failure.Failed && strings.Contains(run.Stderr, "hsa_init has not been called"):
			between++ // how many depends on how long hsa_init takes on this machine
		case run.Code == failure.Failed && strings.Contains(run.Stderr, "hsa_shut_down meanwhile"):
			never++ // each time that it was tried again, too: a runtime lives for 50 ms
		default:
			run.MustBe(t, failure.OK)
		}
		met += strings.Count(run.Stderr, "once more")
		tried++
		return tried >= attaches && between+never < tried
	})
	t.Logf("%d attaches were cut short by a shut-down, and tried again; %d of %d came between two runtimes, %d met the end of each", met, between, tried, never)
	p.StillAlive(t)
}
