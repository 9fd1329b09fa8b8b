package truth

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// slow starts a workload whose threads are inside a raw index function for milliseconds, in one
// of so many calls.
func slow(oneIn string) harness.Workload {
	return harness.Stress(8, 2, 64, "--slow-raw", oneIn)
}

// Without the grace period a slot is used twice or lost, or the queue stops. If this test cannot
// cause that, the next one proves nothing. (Threads must still be
// inside when the queues flip: the arming takes some milliseconds, more with many signals.)
func TestNoGrace(t *testing.T) {
	payload := harness.TestPayload(t)
	const attempts = 20
	unguarded := slow("30")
	unguarded.Args = append(unguarded.Args, "--slow-raw-ms", "100", "--hang", "4")
	for range attempts {
		p := harness.Start(t, unguarded)
		p.TryRecord(t, 300*time.Millisecond, "--payload", payload, "--set", "RTL_TEST_NO_GRACE=1", "--set", "RTL_SIGNAL_POOL=1")
		if why := broken(t, p); why != "" {
			t.Logf("broken, as it must be: %s", why)
			return
		}
	}
	t.Errorf("%d attempts without a grace broke nothing", attempts)
}

// broken ends the workload and returns the violations.
func broken(t *testing.T, p *harness.Process) string {
	_, _ = p.Get("/quit")
	switch code := p.Wait(t); code {
	case 0:
	case 3:
		return "HANG"
	default:
		t.Fatalf("exit code %d\n%s", code, p.Output())
	}
	log := p.Truth(t)
	var counts simlog.Counts = p.Finish(t)
	if err := log.Once.Check(counts); err != nil {
		return err.Error()
	}
	if len(log.Violations) > 0 {
		return log.Violations[0].String()
	}
	return ""
}

// With the grace period the arming succeeds without violations, or it is given up and the target
// is as found.
func TestGrace(t *testing.T) {
	attempts := 3
	if testenv.Long() {
		attempts = 50
	}
	armed := 0
	for range attempts {
		p := harness.Start(t, slow("30"))
		before, slots := p.Snapshot(t), p.Slots(t)
		run := p.TryRecord(t, 300*time.Millisecond)
		p.StillAlive(t)
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("slots changed: %v", changed)
		}
		switch run.Code {
		case failure.OK, failure.NothingSeen:
			armed++
		case failure.Failed:
			p.AsFound(t, before)
		default:
			t.Fatalf("exit code %d\n%s", run.Code, run.Stderr)
		}
		counts := p.Quit(t)
		log := p.Truth(t)
		log.MustHoldOnce(t, counts)
		c := harness.Compare(t, log)
		if run.Code != failure.Failed {
			c.Add(harness.ReadTrace(t, run.Trace))
		}
		c.Finish(nil)
	}
	t.Logf("%d of %d attempts were armed", armed, attempts)
	if armed == 0 {
		t.Error("the grace never ended: nothing was recorded")
	}
}

// The threads of io_uring are listed among a process's, run no code of it, and cannot be
// stopped: no attach waits for them.
func TestUring(t *testing.T) {
	mustHaveUring(t)
	p := harness.Start(t, harness.Stress(4, 2, 64, "--uring", "1", "--pace", "100"))
	if polling, worker := uringThread(t, p, "iou-sqp"), uringThread(t, p, "iou-wrk"); polling != 'R' || worker == '-' {
		t.Fatalf("who polls: %c, who waits: %c", polling, worker)
	}
	check(t, p, p.TIDs(), p.Reattach(t, 3)...)
}

// uringThread returns the state of the thread whose name begins with name.
func uringThread(t *testing.T, p *harness.Process, name string) byte {
	t.Helper()
	process, err := target.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	for tid, comm := range p.Snapshot(t).Threads {
		if !strings.HasPrefix(comm, name) {
			continue
		}
		stat, err := process.ThreadStat(tid)
		if err != nil {
			t.Fatal(err)
		}
		return stat.State
	}
	return '-'
}

func mustHaveUring(t *testing.T) {
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		testenv.Skip(t, "io_uring_setup: "+errno.Error())
	}
	unix.Close(int(fd))
}
