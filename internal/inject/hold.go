package inject

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
)

// keep runs calls on a stopped thread without letting go of it: the rung for
// threads in a timed wait, whose remaining time rt_sigreturn would lose. The
// first call's registers and the link below them are set already, so that the
// thread restores itself if the tool dies; only its wait begins anew then.
// It returns with the thread in a stop from which the kernel's restart logic
// runs, once the caller has put the old registers back.
func (v *visitor) keep(c *ptrace.Tracee, before, start *ptrace.Regs, calls []call) error {
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
			return fmt.Errorf("%s in the target: %w", syscallName(calls[i].nr), unix.Errno(-rax))
		}
	}
	// Restart codes are looked at on the way out of a signal stop only.
	if err := c.WriteRegs(before); err != nil {
		return err
	}
	_, err := c.InterruptStopped(v.patience)
	return err
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
