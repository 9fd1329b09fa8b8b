package inject

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// notNow is the reason why a thread cannot be used at this moment.
type notNow string

func (e notNow) Error() string { return string(e) }

const (
	notWaiting    = notNow("it has left the system call in which it waited")
	noStack       = notNow("it is not on its own stack, or the stack has too little free space")
	foreignFS     = notNow("its fs register does not point to a libc thread")
	signalPending = notNow("a signal is about to be delivered to it")
	inCritical    = notNow("it is in an rseq critical section")
	returnsEINTR  = notNow("its system call would return EINTR")
	untraceable   = notNow("it cannot be traced")
	ending        = notNow("it is ending")
	otherMode     = notNow("it runs 32-bit code")
	unexpected    = notNow("it stopped before the end of a system call")
)

// codeSegment64 is __USER_CS, the code segment of 64-bit user code.
const codeSegment64 = 0x33

// examine decides whether the stopped thread can be used. resume holds the registers
// with which it continues.
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
		return resume, where, notWaiting
	}
	if where != ptrace.User {
		v.lastWait.restore(cand.tid, &c.Regs, &resume)
	}
	if regs := c.Regs; !v.anyWait && classOf(&c.Regs) != epollWait && ptrace.RestartEINTR(&regs) {
		return resume, where, returnsEINTR // reissued, its time-out would start from its full length
	}
	if !v.ownStack(&c.Regs, calls) {
		return resume, where, noStack
	}
	head := unsafe.Slice((*byte)(unsafe.Pointer(&v.head)), unsafe.Sizeof(v.head))
	if v.peek(target.Addr(c.Regs.Fs_base), head) != nil || !v.head.valid(c.Regs.Fs_base) {
		return resume, where, foreignFS
	}
	if pending, err := c.Pending(c.Mask); err != nil || pending {
		return resume, where, signalPending
	}
	if where == ptrace.User && v.inRSeq(c) {
		return resume, where, inCritical
	}
	return resume, where, nil
}

// wait is the call in which a thread was stopped. After a stop in which the tool held
// the thread, it may be in restart_syscall at the next stop. An rt_sigreturn clears the
// state that restart_syscall needs, so that the thread must issue the original call
// again if the tool dies then.
type wait struct {
	tid      int
	rip, rsp uint64
	nr       uint64
}

// restore stores the thread's call, or, if it is in restart_syscall for the stored call,
// changes resume to issue the stored one.
func (w *wait) restore(tid int, now, resume *ptrace.Regs) {
	switch {
	case now.Orig_rax != unix.SYS_RESTART_SYSCALL:
		*w = wait{tid, now.Rip, now.Rsp, now.Orig_rax}
	case w.tid == tid && w.rip == now.Rip && w.rsp == now.Rsp:
		resume.Rax = w.nr
	}
}

// ownStack reports whether the thread runs on the stack that libc or the kernel gave
// it, not on a coroutine's or an alternate one, and whether the chain fits there. Neither
// the stack nor the thread's struct pthread may be in a mapped file, whose pages may be
// slow to come.
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

// inRSeq reports whether the thread is, or may be, in a restartable sequence. The kernel
// aborts an interrupted sequence, but it does not notice an rt_sigreturn into the middle
// of one (rseq(2)).
func (v *threadBorrower) inRSeq(c *ptrace.Tracee) bool {
	area, known := c.RSeqArea()
	if !known || area == 0 {
		return !known
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

// peek and poke are raw reads and writes through the memory descriptor. They transfer 0
// bytes, and so fail, once the target has executed another program.
func (v *threadBorrower) peek(a target.Addr, b []byte) error {
	return v.transfer(unix.SYS_PREAD64, a, b)
}

func (v *threadBorrower) poke(a target.Addr, b []byte) error {
	return v.transfer(unix.SYS_PWRITE64, a, b)
}

func (v *threadBorrower) transfer(nr uintptr, a target.Addr, b []byte) error {
	wait := v.t.BeginRead(target.Memory)
	defer target.EndRead(wait)
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
