package ptrace_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

const alarmSignal = unix.Signal(64)

// vforked starts a victim whose only thread cannot stop until Ask(t, "e").
func vforked(t *testing.T) *victim.Victim {
	v := victim.Start(t, "odd")
	v.Tell(t, "v")
	if !hang.Eventually(func() bool { return status(t, v.PID, "State") == "D (disk sleep)" }) {
		t.Fatal("the victim does not wait for its child")
	}
	return v
}

// TestAlarmBlocked: the alarm works even if the tool's parent has blocked its signal;
// all threads inherit that mask.
func TestAlarmBlocked(t *testing.T) {
	v := vforked(t)
	inTime(t, v, func() error {
		set := unix.Sigset_t{}
		set.Val[0] = 1 << (alarmSignal - 1)
		return unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	})
}

// TestAlarmAlone: a waiting thread blocks all other signals. The kernel would handle
// one that arrives together with the alarm first, and restart the wait.
func TestAlarmAlone(t *testing.T) {
	v := vforked(t)
	tid, blocked := make(chan int, 1), make(chan uint64)
	go func() { blocked <- blockedInWait(<-tid) }()
	inTime(t, v, func() error {
		tid <- unix.Gettid()
		return nil
	})
	const alarms, never = 1 << (alarmSignal - 1), 1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1)
	if got, want := <-blocked, ^uint64(alarms|never); got != want {
		t.Errorf("blocked in the wait: %#x, not %#x", got, want)
	}
}

// blockedInWait returns the mask of signals that thread tid of this process blocks
// while it is in wait4, or 0 if it never got there.
func blockedInWait(tid int) uint64 {
	dir := fmt.Sprintf("/proc/self/task/%d/", tid)
	for {
		before, err := os.ReadFile(dir + "syscall")
		if err != nil {
			return 0
		}
		status, _ := os.ReadFile(dir + "status")
		after, _ := os.ReadFile(dir + "syscall")
		if bytes.HasPrefix(before, []byte("61 ")) && bytes.Equal(before, after) {
			_, mask, _ := strings.Cut(string(status), "SigBlk:\t")
			blocked, _ := strconv.ParseUint(mask[:16], 16, 64)
			return blocked
		}
	}
}

// inTime checks that Interrupt gives up before the victim can stop, on a thread that
// prepare has changed.
func inTime(t *testing.T, v *victim.Victim, prepare func() error) {
	t.Helper()
	const patience = 200 * time.Millisecond
	tr := ptrace.NewTracer()
	defer tr.Close()
	freed := time.AfterFunc(hang.Limit, func() { v.Tell(t, "e") }) // so that a missed alarm ends as well
	begin := time.Now()
	err := tr.Do(func() error {
		if err := prepare(); err != nil {
			return err
		}
		return ptrace.Quiet(-1, func() error { // a collection would wait for this thread, and all others for it
			c, err := ptrace.Seize(v.PID)
			if err == nil {
				_, err = c.Interrupt(patience)
			}
			return err
		})
	})
	if !freed.Stop() || !errors.Is(err, ptrace.ErrNoStop) {
		t.Fatal(err)
	}
	t.Logf("given up after %v", time.Since(begin))
	v.Ask(t, "e")
}
