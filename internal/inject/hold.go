package inject

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
)

// keep runs calls on a stopped thread without letting go of it: the rung for
// threads in a timed wait, whose remaining time rt_sigreturn would lose. The
// first call's registers and the link below them are set already, so that the
// thread restores itself if the tool dies; only its wait begins anew then.
// It leaves the thread in an Interrupted stop, on errors too: restart codes
// mean something to the kernel on the way out of a signal stop only.
func (v *visitor) keep(c *ptrace.Tracee, before, start *ptrace.Regs, calls []call) error {
	err := v.step(c, before, start, calls)
	if errors.Is(err, ptrace.ErrNoStop) || errors.Is(err, ptrace.ErrGone) {
		return err // it runs on, and takes the link
	}
	if werr := c.WriteRegs(before); werr != nil {
		return errors.Join(err, werr)
	}
	_, ierr := c.InterruptStopped(v.patience)
	return errors.Join(err, ierr)
}

// step makes the calls, each from syscall stop to syscall stop.
func (v *visitor) step(c *ptrace.Tracee, before, start *ptrace.Regs, calls []call) error {
	for i := range calls {
		next := v.libc.registers(before, &calls[i], start.Rsp)
		if err := c.WriteRegs(&next); err != nil {
			return fmt.Errorf("set registers: %w", err)
		}
		for range 2 { // entry, exit
			stop, err := c.StepSyscall(v.patience)
			if err != nil {
				return err
			}
			if !stop.Syscall() {
				return unexpected
			}
		}
		if err := c.ReadRegs(); err != nil {
			return fmt.Errorf("read registers: %w", err)
		}
		if rax := int64(c.Regs.Rax); rax < 0 && rax > -4096 {
			return &BootError{Call: syscallName(calls[i].nr), Err: unix.Errno(-rax)}
		}
	}
	return nil
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
