package inject

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
)

// stepThroughCalls runs calls on a stopped thread and stays attached to it throughout.
// It is for every thread that is not in a futex wait without time-out (decision 0020).
// The registers of the first call and the link are already set, so that the thread
// restores itself if the tool dies; only a time-out of its wait then restarts. On
// errors too it leaves the thread in an Interrupted stop: the kernel acts on restart
// codes only when a thread leaves a signal stop. A thread that gets no CPU to reach its
// stop runs on (ErrNoStop): it returns through the link, or has its own registers
// already. made reports whether the last call was made, also on errors.
func (v *threadBorrower) stepThroughCalls(c *ptrace.Tracee, pts points, before, start *ptrace.Regs, mask uint64, calls []call) (made bool, err error) {
	made, err = v.step(c, pts, before, start, calls)
	if ranOn(err) {
		return made, err
	}
	// The mask before the registers: if the tool died in between the other way round, the
	// thread would run on with all signals blocked. This way it returns through the link.
	if werr := c.WriteMask(&mask); werr != nil {
		return made, errors.Join(err, werr)
	}
	if err == nil {
		err = at(pts.unmasked)
	}
	if werr := c.WriteRegs(before); werr != nil {
		return made, errors.Join(err, werr)
	}
	if err == nil {
		err = at(pts.back)
	}
	_, ierr := c.InterruptStopped(stepPatience)
	return made, errors.Join(err, ierr)
}

const (
	// stepPatience is how long a held thread may take for one step: it waits only for a
	// CPU.
	stepPatience = 2 * time.Second

	// holdPatience limits all steps of one stop; it is far below ptrace.HoldLimit.
	holdPatience = 5 * time.Second
)

// stepSyscall is a variable so that tests can make a thread miss its deadline.
var stepSyscall = (*ptrace.Tracee).StepSyscall

// ranOn reports whether the tool lost control of the thread, which has made its call or
// will make it. No other thread may make the call again: of two threads in one
// bootstrap, one would unmap the memory that the other runs in.
func ranOn(err error) bool {
	var refused *BootError
	return (errors.Is(err, ptrace.ErrNoStop) || errors.Is(err, ptrace.ErrGone)) && !errors.As(err, &refused)
}

// step makes the calls, each from its entry stop to its exit stop. made reports whether
// the last call succeeded.
func (v *threadBorrower) step(c *ptrace.Tracee, pts points, before, start *ptrace.Regs, calls []call) (made bool, err error) {
	deadline := time.Now().Add(holdPatience)
	for i := range calls {
		next := v.libc.registers(before, &calls[i], start.Rsp)
		if err := c.WriteRegs(&next); err != nil {
			return false, fmt.Errorf("set registers: %w", err)
		}
		var fault error // an entry's fault is returned after the exit: an entered call cannot be cancelled
		for _, p := range [...]Point{pts.entry, pts.exit} {
			stop, err := stepSyscall(c, min(stepPatience, time.Until(deadline)))
			if err != nil {
				return false, err
			}
			if !stop.Syscall() {
				return false, unexpected
			}
			if err := at(p); err != nil {
				fault = err
			}
		}
		if err := c.ReadRegs(); err != nil {
			return false, fmt.Errorf("read registers: %w", err)
		}
		if rax := int64(c.Regs.Rax); rax < 0 && rax > -4096 {
			return false, &BootError{Call: syscallName(calls[i].nr), Err: unix.Errno(-rax)}
		}
		if made = i == len(calls)-1; fault != nil {
			return made, fault
		}
	}
	return made, nil
}

func syscallName(nr uint64) string {
	switch nr {
	case unix.SYS_MMAP:
		return "mmap"
	case unix.SYS_MUNMAP:
		return "munmap"
	case unix.SYS_CLONE:
		return "clone"
	}
	return fmt.Sprintf("syscall %d", nr)
}
