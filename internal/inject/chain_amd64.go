package inject

import (
	"encoding/binary"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// chain makes a stopped thread do a few raw syscalls and then continue as before,
// without further help: once the tool has set its registers, the tool may die. The
// chain lies below the red zone:
//
//	  rsp of the thread
//	  red zone, 128 bytes
//	  XSAVE area, 64-byte aligned, and FP_XSTATE_MAGIC2
//	  link n: restore_rt, ucontext: the thread's original registers
//	  ...
//	  link 1: restore_rt, ucontext: registers of the second call
//	S link 0 (rsp of the first call)
//
// The tool sets the registers for the first call: rip points to a `syscall; ret` in
// libc. Its ret goes to libc's restore_rt, and rt_sigreturn loads the next registers
// from the link. The thread runs none of the tool's code.
type chain struct {
	syscallRet target.Addr // `syscall; ret` in libc's text
	restoreRT  target.Addr // `mov $15, %rax; syscall` there
}

// call is one raw syscall with its arguments, and the value of rbx during it.
type call struct {
	nr   uint64
	args [6]uint64
	rbx  uint64
}

// Offsets in struct rt_sigframe and struct _fpx_sw_bytes
// (arch/x86/include/asm/sigframe.h, uapi/asm/sigcontext.h).
const (
	linkBytes   = 8 + 304 // pretcode and ucontext; rt_sigreturn reads no siginfo
	ucontext    = 8
	mcontext    = ucontext + 40
	fpstateAt   = mcontext + 23*8
	sigmaskAt   = ucontext + 296
	ucFlags     = 7 // UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS
	swReserved  = 464
	xstateMagic = 0x46505853
	xstateEnd   = 0x46505845
	redZone     = 128
)

// chainMax limits a chain's size in bytes on the stack of the thread.
const chainMax = 24 << 10

// chainBytes returns the most bytes that a chain of n calls takes below rsp.
func chainBytes(n, xstate int) int {
	return redZone + xstate + 4 + 64 + n*linkBytes + 16
}

// build writes a chain, to be copied below resume.Rsp, into buf. It returns the used
// part of buf, its address in the target, and the registers that start the chain. now
// holds the thread's current registers, resume the registers with which it continues
// after the last call. build must not allocate.
func (c chain) build(buf []byte, now, resume *ptrace.Regs, mask uint64, xstate []byte, calls []call) (
	frame []byte, at target.Addr, start ptrace.Regs,
) {
	top := (resume.Rsp - redZone - uint64(len(xstate)) - 4) &^ 63
	base := (top - uint64(len(calls)*linkBytes)) &^ 15
	frame = buf[:top-base+uint64(len(xstate))+4]
	clear(frame[:top-base])

	fp := frame[top-base:]
	copy(fp, xstate)
	// The regset has the mask of features at the beginning of these bytes.
	le := binary.LittleEndian
	features := le.Uint64(fp[swReserved:])
	le.PutUint32(fp[swReserved:], xstateMagic)
	le.PutUint32(fp[swReserved+4:], uint32(len(xstate)+4))
	le.PutUint64(fp[swReserved+8:], features)
	le.PutUint32(fp[swReserved+16:], uint32(len(xstate)))
	le.PutUint32(fp[len(xstate):], xstateEnd)

	for i := range calls {
		link := frame[i*linkBytes:]
		sp := base + uint64(i*linkBytes)
		regs, m := resume, mask
		var next ptrace.Regs
		if i+1 < len(calls) {
			next = c.registers(now, &calls[i+1], sp+linkBytes)
			regs, m = &next, ^uint64(0)
		}
		c.link(link, regs, m, top)
	}
	return frame, target.Addr(base), c.registers(now, &calls[0], base)
}

// link writes one rt_sigframe. The kernel refuses its empty uc_stack and then leaves
// the alternate stack unchanged (restore_altstack).
func (c chain) link(b []byte, r *ptrace.Regs, mask, fpstate uint64) {
	le := binary.LittleEndian
	le.PutUint64(b, uint64(c.restoreRT))
	le.PutUint64(b[ucontext:], ucFlags)
	for i, v := range [...]uint64{
		r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15,
		r.Rdi, r.Rsi, r.Rbp, r.Rbx, r.Rdx, r.Rax, r.Rcx, r.Rsp, r.Rip, r.Eflags,
		r.Cs&0xffff | (r.Ss&0xffff)<<48,
	} {
		le.PutUint64(b[mcontext+8*i:], v)
	}
	le.PutUint64(b[fpstateAt:], fpstate)
	le.PutUint64(b[sigmaskAt:], mask)
}

// registers returns the registers that make the call k and then return to the link at sp.
func (c chain) registers(now *ptrace.Regs, k *call, sp uint64) ptrace.Regs {
	r := *now
	r.Orig_rax = ^uint64(0) // no restart logic for the interrupted syscall
	r.Rip, r.Rsp = uint64(c.syscallRet), sp
	r.Rax, r.Rbx = k.nr, k.rbx
	r.Rdi, r.Rsi, r.Rdx = k.args[0], k.args[1], k.args[2]
	r.R10, r.R8, r.R9 = k.args[3], k.args[4], k.args[5]
	const trap, direction = 1 << 8, 1 << 10
	r.Eflags &^= trap | direction
	return r
}
