package ptrace_test

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

// The environment variable makes TestDeadman's child of this test binary.
const stuck = "RTL_TEST_STUCK"

// TestDeadman: the tracer's thread sleeps in a call that keeps its P, a garbage
// collection waits for it, and all other threads wait for the collection. The kernel
// must then kill the process.
func TestDeadman(t *testing.T) {
	if os.Getenv(stuck) != "" {
		stick()
	}
	child := exec.Command(os.Args[0], "-test.run=^TestDeadman$")
	child.Env = append(os.Environ(), stuck+"=1")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	saved := time.AfterFunc(hang.Limit, func() { _ = child.Process.Signal(unix.SIGTERM) })
	_ = child.Wait()
	saved.Stop()
	if status := child.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != unix.SIGKILL {
		t.Errorf("the child ended with %v", child.ProcessState)
	}
}

func stick() {
	ptrace.HoldLimit = 300 * time.Millisecond
	go func() {
		for {
			runtime.GC()
		}
	}()
	_ = ptrace.NewTracer().Do(func() error {
		all := unix.Sigset_t{Val: [16]uint64{^uint64(0)}} // the runtime's, too, which would interrupt the call
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil); err != nil {
			return err
		}
		_, _, errno := unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
		return errno
	})
	os.Exit(1)
}
