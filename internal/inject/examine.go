package inject

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// notNow says that this thread cannot be used at this moment.
type notNow string

func (e notNow) Error() string { return string(e) }

const (
	moved      = notNow("it was not in its wait any more")
	noStack    = notNow("it is not on a stack of its own with room to spare")
	foreignFS  = notNow("its fs register points to no thread of libc")
	signalled  = notNow("a signal is about to be delivered to it")
	critical   = notNow("it is in an rseq critical section")
	leaks      = notNow("its syscall returned EINTR")
	busy       = notNow("it cannot be traced")
	ending     = notNow("it is ending")
	otherMode  = notNow("it runs 32-bit code")
	unexpected = notNow("it did not come to the end of a syscall")
)

// codeSegment64 is __USER_CS, what 64-bit user code runs with.
const codeSegment64 = 0x33

// examine decides whether the stopped thread can be used, and how it resumes.
func (v *threadBorrower) examine(c *ptrace.Tracee, cand candidate, calls int) (resume ptrace.Regs, where ptrace.Where, err error) {
	if err := c.ReadRegs(); err != nil {
		return resume, where, fmt.Errorf("read registers: %w", err)
	}
	if err := c.ReadMask(); err != nil {
		return resume, where, fmt.Errorf("read signal mask: %w", err)
	}
	if c.Regs.Cs != codeSegment64 {
		return resume, where, otherMode
	}
	resume, where = ptrace.Resume(&c.Regs)
	if where == ptrace.User && cand.class != running {
		return resume, where, moved
	}
	if where != ptrace.User {
		v.waited.recall(cand.tid, &c.Regs, &resume)
	}
	if leaking := c.Regs; !v.desperate && classOf(&c.Regs) != epollWait && ptrace.RestartEINTR(&leaking) {
		return resume, where, leaks // a time-out that would begin anew
	}
	if !v.ownStack(&c.Regs, calls) {
		return resume, where, noStack
	}
	head := unsafe.Slice((*byte)(unsafe.Pointer(&v.head)), unsafe.Sizeof(v.head))
	if v.peek(target.Addr(c.Regs.Fs_base), head) != nil || !v.head.valid(c.Regs.Fs_base) {
		return resume, where, foreignFS
	}
	if pending, err := c.Pending(c.Mask); err != nil || pending {
		return resume, where, signalled
	}
	if where == ptrace.User && v.inRSeq(c) {
		return resume, where, critical
	}
	return resume, where, nil
}

// A wait is the call in which a thread was stopped. Held, it may be in restart_syscall
// by the next stop, which has nothing to restart after an rt_sigreturn: a thread whose
// tool dies then makes the call itself once more.
type wait struct {
	tid      int
	rip, rsp uint64
	nr       uint64
}

func (w *wait) recall(tid int, now, resume *ptrace.Regs) {
	switch {
	case now.Orig_rax != unix.SYS_RESTART_SYSCALL:
		*w = wait{tid, now.Rip, now.Rsp, now.Orig_rax}
	case w.tid == tid && w.rip == now.Rip && w.rsp == now.Rsp:
		resume.Rax = w.nr
	}
}

// ownStack: the thread runs on the stack that libc or the kernel gave it, not
// on a coroutine's or an alternate one, and there is room for the chain. Neither
// it nor the thread's descriptor has to be waited for.
func (v *threadBorrower) ownStack(r *ptrace.Regs, calls int) bool {
	m, ok := target.FindMap(v.maps, target.Addr(r.Rsp))
	if !ok || !stackLike(m, r.Rsp, uint64(chainBytes(calls, chainMax/2))) {
		return false
	}
	if m.Path == "[stack]" {
		home, ok := target.FindMap(v.maps, target.Addr(r.Fs_base))
		return ok && home.Inode == 0
	}
	return m.Contains(target.Addr(r.Fs_base)) && r.Fs_base > r.Rsp
}

// inRSeq: the kernel would abort a restartable sequence that is interrupted;
// rt_sigreturn into the middle of one would go unnoticed (rseq(2)).
func (v *threadBorrower) inRSeq(c *ptrace.Tracee) bool {
	area, told := c.RSeqArea()
	if !told || area == 0 {
		return !told
	}
	words := unsafe.Slice((*byte)(unsafe.Pointer(&v.words)), 16)
	// struct rseq: rseq_cs at 8. struct rseq_cs: start_ip at 8, length at 16.
	if v.peek(target.Addr(area+8), words[:8]) != nil || v.words[0] == 0 {
		return false
	}
	if v.peek(target.Addr(v.words[0]+8), words) != nil {
		return true
	}
	return c.Regs.Rip-v.words[0] < v.words[1]
}

// peek and poke are raw reads and writes through the memory descriptor: they
// fail with 0 bytes once the target has executed another program.
func (v *threadBorrower) peek(a target.Addr, b []byte) error {
	return v.transfer(unix.SYS_PREAD64, a, b)
}

func (v *threadBorrower) poke(a target.Addr, b []byte) error {
	return v.transfer(unix.SYS_PWRITE64, a, b)
}

func (v *threadBorrower) transfer(nr uintptr, a target.Addr, b []byte) error {
	mine := v.t.BeginRead(target.Memory)
	defer target.EndRead(mine)
	n, _, errno := unix.RawSyscall6(nr, uintptr(v.t.MemFD()), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		uintptr(a), 0, 0)
	switch {
	case errno != 0:
		return errno
	case int(n) != len(b):
		return target.ErrExec
	}
	return nil
}
