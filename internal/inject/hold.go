package inject

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
)

// stepThroughCalls runs calls on a stopped thread without letting go of it: the rung for
// all that are not in a futex wait without time-out (decision 0020). The
// first call's registers and the link below them are set already, so that the
// thread restores itself if the tool dies; only its wait begins anew then.
// It leaves the thread in an Interrupted stop, on errors too: restart codes
// mean something to the kernel on the way out of a signal stop only. A thread that
// gets no CPU to come to a stop runs on (ErrNoStop): it takes the link, or is itself
// already. made: the last call has been made, whatever the error.
func (v *threadBorrower) stepThroughCalls(c *ptrace.Tracee, pts points, before, start *ptrace.Regs, mask uint64, calls []call) (made bool, err error) {
	made, err = v.step(c, pts, before, start, calls)
	if ranOn(err) {
		return made, err
	}
	// In this order: with its own registers and all signals blocked it would stay deaf
	// if we died. So it takes the link.
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
	// stepPatience is how long a thread that is held gets for a step of its own: it
	// waits for nothing but a CPU.
	stepPatience = 2 * time.Second

	// holdPatience bounds all steps of one stop; far below ptrace.HoldLimit.
	holdPatience = 5 * time.Second
)

// stepSyscall is a variable for tests: they let a thread not come.
var stepSyscall = (*ptrace.Tracee).StepSyscall

// ranOn: the thread is not ours any more, and what it was told to do is done, or
// will be. No other may be told so, too: two threads in one bootstrap would unmap it
// below each other.
func ranOn(err error) bool {
	var refused *BootError
	return (errors.Is(err, ptrace.ErrNoStop) || errors.Is(err, ptrace.ErrGone)) && !errors.As(err, &refused)
}

// step makes the calls, each from syscall stop to syscall stop. made: the last of
// them has had its effect.
func (v *threadBorrower) step(c *ptrace.Tracee, pts points, before, start *ptrace.Regs, calls []call) (made bool, err error) {
	deadline := time.Now().Add(holdPatience)
	for i := range calls {
		next := v.libc.registers(before, &calls[i], start.Rsp)
		if err := c.WriteRegs(&next); err != nil {
			return false, fmt.Errorf("set registers: %w", err)
		}
		var fault error // that of the entry waits: a call that is entered cannot be taken back
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
