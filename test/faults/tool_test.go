package faults

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// Group D: faults of the tool.
var tool = []row{
	{"33a", "tool killed at each named point", "unharmed; the next attach works and leaves nothing", killedAtPoints},
	{"33b", "each named point fails", "undone, exit code 1; the next attach works", failsAtPoints},
	{"33c", "the tool hangs at each named point", "the target goes on; a tool that holds a thread ends by itself", hangsAtPoints},
	{"33d", "the target is killed at each named point", "exit code 3 or 5, in time", targetDiesAtPoints},
	{"33e", "each step of the payload fails, hangs, kills", "unharmed; the next attach works", payloadAtSteps},
	{"33f", "33a to 33d, all threads in waits with a time-out", "the same, with threads held", held.run},
	{"33g", "an attach that is being undone", "the same; the next attach frees what is left", undone.run},
	{"33h", "threads with seccomp filters", "the same", inFilters.run},
	{"33i", "a grace that stops threads", "the same", inGrace.run},
	{"33j", "a resident payload", "the same", again.run},
	{"33k", "copies recorded, too", "the same", withCopies.run},
	{"33l", "a group of two", "the same, for both", inGroup.run},
	{"33m", "detach of a session that has no recorder", "unharmed; the next detach works", detached.run},
	{"33n", "detach of another tool's session", "its recorder ends it", stopping.run},
	{"33o", "33g, all threads in waits with a time-out", "the same, with threads held", undoneHeld.run},
	{"33p", "33f, all threads in epoll_wait", "the same, without EINTR", heldPolls.run},
	{"33q", "the payload fails, over and over", "memory, maps, descriptors, threads flat", faultsOverAndOver},
	{"34", "tool killed at random times", "unharmed; the next attach works and leaves nothing", toolKilledAtRandom},
	{"35a", "tool stopped for long", "the target goes on serving", toolStopped},
	{"35b", "tool stopped for longer than the bootstrap waits", "the bootstrap leaves by itself", bootstrapLeaves},
	{"35c", "the runtime is shut down while the tool is stopped", "said to be missing; the next runtime is recorded", shutDownUnread},
	{"35d", "tool stopped while it holds a thread", "the kernel ends it, and the thread goes on", stoppedHolding},
	{"36a", "two tools at once", "one wins, the other names it", twoTools},
	{"36b", "two injectors at once, without the lock", "neither harms the target", twoInjectors},
	{"37", "reattach cycles", "memory, maps, descriptors, threads flat", cycles},
	{"38a", "the tool has no memory", "unharmed", toolWithoutMemory},
	{"38b", "the tool is killed for its memory", "unharmed", toolOutOfMemory},
	{"38c", "the payload's memory is refused", "clear error; success with room again", payloadWithoutMemory},
}

// bootstrapLeaves: the same for the injector, with a short timeout of the bootstrap.
func bootstrapLeaves(t *testing.T) string {
	v := victim.Start(t, "busy", "spin", "futex", "read")
	before := v.Inventory(t)
	left := 0
	for _, p := range []inject.Point{
		inject.PointMapped, inject.PointWritten, inject.PointCloned, inject.PointReady, inject.PointDelivered,
		inject.PointLoaded, inject.PointResolvedE, inject.PointCalled,
	} {
		early, late := p == inject.PointMapped || p == inject.PointWritten, p == inject.PointCalled
		err := heldUp(t, v, p, before, early)
		hasLeft := errors.Is(err, inject.ErrLeft)
		if hasLeft {
			left++
		}
		switch {
		case hasLeft: // a starved tool may be held up elsewhere, too
		case err != nil, !early && !late:
			t.Errorf("%s: error %v", p, err)
		}
		if errors.Is(err, target.ErrGone) {
			t.Errorf("%s: the process is there: %v", p, err)
		}
		v.Unharmed(t)
		v.AsBefore(t, before)
	}
	if left == 0 {
		t.Error("it never left")
	}
	return fmt.Sprintf("left %d times: %v", left, inject.ErrLeft)
}

// heldUp injects, and waits at a point until the bootstrap has ended or, with early, before there
// is one, for longer than its timeout.
func heldUp(t *testing.T, v *victim.Victim, p inject.Point, before victim.Inventory, early bool) error {
	t.Helper()
	const idle = 200 * time.Millisecond
	defer atPoint(p, func() {
		if early {
			time.Sleep(2 * idle)
		} else if !hang.Eventually(func() bool { now := v.Inventory(t); return len(now.Ours) == 0 && now.Threads == before.Threads }) {
			t.Errorf("%s: the bootstrap does not leave", p)
		}
	})()
	_, err := injected(t, v, inject.Request{
		Library: library(t, "payload.so"), Entry: "rtl_attach",
		MapTimeout: hang.Limit, BootTimeout: hang.Limit, IdleTimeout: idle,
	})
	return err
}

func twoTools(t *testing.T) string {
	v := mixed(t)
	n := repeat(3, 50)
	for range n {
		won, lost := raced(t, v.PID)
		if !slices.Contains(goneWell, won.Code) {
			t.Errorf("the winner: exit code %d\n%s", won.Code, won.Stderr.String())
		}
		if said := lost.Stderr.String(); lost.Code != int(failure.NotPermitted) || !strings.Contains(said, strconv.Itoa(won.Cmd.Process.Pid)) {
			t.Errorf("the loser: exit code %d, it is to name pid %d\n%s", lost.Code, won.Cmd.Process.Pid, said)
		}
		v.sound(t)
	}
	return fmt.Sprintf("%d times: exit codes 0 and 3, the winner named", n)
}

// raced starts two tools at once. The winner records until the loser has ended, even if the loser
// comes to the target late.
func raced(t *testing.T, pid int) (won, lost *run) {
	t.Helper()
	ended := make(chan *run, 2)
	both := []*run{recording(t, "rtl-attach", pid, "-d", hang.Limit.String()), recording(t, "rtl-attach", pid, "-d", hang.Limit.String())}
	for _, r := range both {
		go func() {
			r.Exit(t)
			ended <- r
		}()
	}
	lost = <-ended
	if won = both[0]; won == lost {
		won = both[1]
	}
	if !won.attaches() {
		t.Errorf("the winner does not attach\n%s", won.Stderr.String())
	}
	won.Signal(t, unix.SIGINT)
	<-ended
	return won, lost
}

// twoInjectors: the lock of package target excludes one of two injectors.
func twoInjectors(t *testing.T) string {
	v := victim.Start(t, "busy")
	before := v.Inventory(t)
	lib := library(t, "payload.so")
	results := make(chan error)
	n := repeat(20, 100)
	for range 2 {
		go func() {
			var all error
			for range n {
				_, err := injected(t, v, inject.Request{Library: lib, Entry: "rtl_attach"})
				if err != nil && !errors.Is(err, target.ErrTraced) && !errors.Is(err, inject.ErrTaken) &&
					!errors.Is(err, inject.ErrLeft) { // by the other one; or one was starved
					all = errors.Join(all, err)
				}
			}
			results <- all
		}()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	h := v.Unharmed(t)
	v.AsBefore(t, before)
	return fmt.Sprintf("2 × %d injections at once, harm %d", n, h.Harm)
}

// footprint has the values that must not grow.
type footprint struct {
	kib, gpuKiB        int // anonymous memory; gpuKiB: what the runtime shares with the GPU (MADV_DONTFORK)
	maps, fds, threads int
}

func footprintOf(t *testing.T, pid int) (f footprint) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		t.Fatal(err)
	}
	anonymous := 0
	for line := range strings.Lines(string(maps)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "Anonymous":
			_, _ = fmt.Sscan(value, &anonymous)
		case "VmFlags": // the last one of each mapping
			f.maps++
			if slices.Contains(strings.Fields(value), "dc") {
				f.gpuKiB += anonymous
			} else {
				f.kib += anonymous
			}
		}
	}
	f.fds, f.threads = entries(t, pid, "fd"), entries(t, pid, "task")
	return f
}

// gpuStepKiB is the size of the memory, visible to the GPU, that the runtime allocates for more
// pool signals than ever before, and keeps.
const gpuStepKiB = 2048

// cycles: 37.
func cycles(t *testing.T) string {
	v := onGPU(t, "busy", "futex", "read", "sleep", "epoll")
	return staysFlat(t, v, repeat(5, 50), repeat(20, 1000), func(int) {
		r := recording(t, "rtl-attach", v.PID, "-d", "20ms")
		if code := r.Exit(t); !slices.Contains(goneWell, code) {
			t.Fatalf("exit code %d\n%s", r.Code, r.Stderr.String())
		}
		r.removeTrace()
	})
}

// staysFlat checks that a target's footprint does not grow in n cycles, after some first ones.
// The runtime keeps the memory of pool signals: in the first cycles it allocates that. A worker
// that gets no processor for a while needs more signals.
func staysFlat(t *testing.T, v *gpuVictim, some, n int, cycle func(i int)) string {
	t.Helper()
	for i := range some {
		cycle(i)
	}
	v.sound(t) // what is to end has ended
	before := footprintOf(t, v.PID)
	for i := range n {
		cycle(i)
	}
	v.sound(t)
	now := footprintOf(t, v.PID)
	signals := max(now.gpuKiB-before.gpuKiB, 0) // it has an object of its own for each, about as large
	if now.threads != before.threads || now.fds > before.fds || now.maps > before.maps+2 || now.kib > before.kib+512+signals || now.gpuKiB > before.gpuKiB+gpuStepKiB {
		t.Errorf("%d cycles: %+v, now %+v", n, before, now)
	}
	return fmt.Sprintf("%d cycles: memory %d → %d KiB, shared with the GPU %d → %d KiB, maps %d → %d, descriptors %d → %d, threads %d → %d", n,
		before.kib, now.kib, before.gpuKiB, now.gpuKiB, before.maps, now.maps, before.fds, now.fds, before.threads, now.threads)
}
