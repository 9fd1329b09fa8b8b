package inject

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// TestChain emulates the kernel: it follows a chain from the first registers to the
// last, as `ret` and rt_sigreturn would.
func TestChain(t *testing.T) {
	c := chain{syscallRet: 0x7f1000, restoreRT: 0x7f2000}
	xstate := make([]byte, 2696)
	for i := range xstate {
		xstate[i] = byte(i)
	}
	le := binary.LittleEndian
	le.PutUint64(xstate[swReserved:], 0x2e7) // features
	now := ptrace.Regs{
		Rsp: 0x7ffd12345678, Rip: 0x400100, Orig_rax: unix.SYS_FUTEX, Rax: ^uint64(511),
		Rbx: 3, Rbp: 5, Eflags: 0x346, Cs: 0x33, Ss: 0x2b, R15: 15, Rdi: 77,
	}
	resume := now
	resume.Rip, resume.Rax = now.Rip-2, now.Orig_rax
	calls := []call{
		{nr: unix.SYS_MUNMAP, args: [6]uint64{1, 2, 3, 4, 5, 6}},
		{nr: unix.SYS_MMAP, args: [6]uint64{11, 12, 13, 14, 15, 16}},
		{nr: unix.SYS_CLONE, args: [6]uint64{21, 22, 23, 24, 25, 26}, rbx: 9},
	}
	const mask = 0xabcd
	var buf [chainMax]byte
	for i := range buf {
		buf[i] = 0xee // what an earlier chain left
	}
	frame, base, regs := c.build(buf[:], &now, &resume, mask, xstate, calls)
	if end := uint64(base) + uint64(len(frame)); end > now.Rsp-redZone {
		t.Fatalf("the chain ends at %#x, in the red zone below %#x", end, now.Rsp)
	}
	if used := now.Rsp - uint64(base); used > uint64(chainBytes(len(calls), len(xstate))) {
		t.Errorf("%d bytes used, chainBytes says %d", used, chainBytes(len(calls), len(xstate)))
	}
	at := func(a uint64) []byte { return frame[a-uint64(base):] }
	for i, k := range calls {
		if regs.Rip != uint64(c.syscallRet) || regs.Rax != k.nr || regs.Rbx != k.rbx ||
			[6]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9} != k.args {
			t.Fatalf("call %d: %+v", i, regs)
		}
		if regs.Eflags&(1<<8) != 0 {
			t.Fatalf("call %d would trap", i)
		}
		if ret := le.Uint64(at(regs.Rsp)); ret != uint64(c.restoreRT) {
			t.Fatalf("call %d returns to %#x", i, ret)
		}
		link := at(regs.Rsp)
		if le.Uint64(link[ucontext:]) != ucFlags || le.Uint64(link[ucontext+16:]) != 0 {
			t.Fatalf("link %d: flags %#x", i, le.Uint64(link[ucontext:]))
		}
		wantMask := ^uint64(0)
		if i == len(calls)-1 {
			wantMask = mask
		}
		if got := le.Uint64(link[sigmaskAt:]); got != wantMask {
			t.Errorf("mask after call %d: %#x", i, got)
		}
		fp := le.Uint64(link[fpstateAt:])
		if fp%64 != 0 {
			t.Errorf("vector state at %#x", fp)
		}
		checkXState(t, at(fp), xstate)
		regs = sigreturn(link)
	}
	resume.Orig_rax = 0 // rt_sigreturn sets it; not part of the frame
	if regs != resume {
		t.Errorf("in the end\n%+v, want\n%+v", regs, resume)
	}
}

func checkXState(t *testing.T, fp, xstate []byte) {
	t.Helper()
	le := binary.LittleEndian
	if le.Uint32(fp[swReserved:]) != xstateMagic || le.Uint32(fp[len(xstate):]) != xstateEnd ||
		le.Uint64(fp[swReserved+8:]) != 0x2e7 || int(le.Uint32(fp[swReserved+16:])) != len(xstate) {
		t.Error("the kernel would not take the vector state for one of XSAVE's")
	}
	for i := range xstate {
		if (i < swReserved || i >= swReserved+48) && fp[i] != xstate[i] {
			t.Fatalf("vector state differs at %d", i)
		}
	}
}

// sigreturn loads registers as the kernel does (struct sigcontext).
func sigreturn(link []byte) ptrace.Regs {
	w := func(i int) uint64 { return binary.LittleEndian.Uint64(link[mcontext+8*i:]) }
	return ptrace.Regs{
		R8: w(0), R9: w(1), R10: w(2), R11: w(3), R12: w(4), R13: w(5), R14: w(6), R15: w(7),
		Rdi: w(8), Rsi: w(9), Rbp: w(10), Rbx: w(11), Rdx: w(12), Rax: w(13), Rcx: w(14), Rsp: w(15),
		Rip: w(16), Eflags: w(17), Cs: w(18) & 0xffff, Ss: w(18) >> 48,
	}
}

// TestChainFits: the longest chain with the largest vector state.
func TestChainFits(t *testing.T) {
	if need := chainBytes(leftoversMax+2, chainMax/2); need > chainMax {
		t.Errorf("%d bytes, there are %d", need, chainMax)
	}
}

func TestChooseBase(t *testing.T) {
	maps := []target.Map{
		{Start: 0x400000, End: 0x500000},
		{Start: 0x555555554000, End: 0x555555800000},
		{Start: 0x7ffff7c00000, End: 0x7ffff7fff000},
		{Start: 0xffffffffff600000, End: 0xffffffffff601000},
	}
	for range 1000 {
		a, err := chooseBase(maps)
		if err != nil {
			t.Fatal(err)
		}
		if a&(markStep-1) != markBits {
			t.Fatalf("%#x has no mark", a)
		}
		for _, m := range maps[:3] {
			if a+1<<30 > m.Start && a < m.End+1<<30 {
				t.Fatalf("%#x is near %#x", a, m.Start)
			}
		}
	}
	full := []target.Map{{Start: 0x1000, End: topOfUser}}
	if a, err := chooseBase(full); err == nil {
		t.Errorf("found %#x in a full address space", a)
	}
}

// TestLookingIsBounded: the search stays short in a target with thousands of mappings
// that look like the tool's.
func TestLookingIsBounded(t *testing.T) {
	var maps []target.Map
	for i := range target.Addr(1000) {
		code := i*markStep | markBits
		maps = append(maps, target.Map{Start: code, End: code + codeBytes, Perms: "r-xp"},
			target.Map{Start: code + codeBytes, End: code + 2*codeBytes, Perms: "rw-p"})
	}
	all, looks := pairs(maps), 0
	look := func(pair) bool { looks++; return true }
	if found := firstMatching(all, time.Now().Add(time.Hour), look); len(all) != 1000 || len(found) != leftoversMax || looks != leftoversMax {
		t.Errorf("%d looks at %d, %d of which were taken", looks, len(all), len(found))
	}
	looks = 0
	if found := firstMatching(all, time.Now().Add(-time.Second), look); len(found)+looks > 0 {
		t.Errorf("%d looks after the deadline, %d were taken", looks, len(found))
	}
}

func TestClassify(t *testing.T) {
	minusOne := uint64(0xffffffff)
	for _, tc := range []struct {
		name string
		call target.Syscall
		want class
	}{
		{"running", target.Syscall{Running: true, Number: -1}, running},
		{"page fault", target.Syscall{Number: -1}, unusable},
		{"futex", target.Syscall{Number: unix.SYS_FUTEX, Args: [6]uint64{1, 0x189}}, idleFutexWait},
		{"futex, timed", target.Syscall{Number: unix.SYS_FUTEX, Args: [6]uint64{1, 0x189, 0, 0x7fff}}, otherWait},
		{"futex, lock_pi", target.Syscall{Number: unix.SYS_FUTEX, Args: [6]uint64{1, 6}}, otherWait},
		{"read", target.Syscall{Number: unix.SYS_READ}, untimedWait},
		{"poll", target.Syscall{Number: unix.SYS_POLL, Args: [6]uint64{0, 0, minusOne}}, untimedWait},
		{"poll, timed", target.Syscall{Number: unix.SYS_POLL, Args: [6]uint64{0, 0, 10}}, otherWait},
		{"ppoll", target.Syscall{Number: unix.SYS_PPOLL}, untimedWait},
		{"select, timed", target.Syscall{Number: unix.SYS_SELECT, Args: [6]uint64{0, 0, 0, 0, 1}}, otherWait},
		{"epoll_wait", target.Syscall{Number: unix.SYS_EPOLL_WAIT, Args: [6]uint64{0, 0, 0, minusOne}}, epollWait},
		{"epoll_wait, timed", target.Syscall{Number: unix.SYS_EPOLL_WAIT, Args: [6]uint64{0, 0, 0, 1}}, otherWait},
		{"nanosleep", target.Syscall{Number: unix.SYS_NANOSLEEP}, otherWait},
		{"vfork", target.Syscall{Number: unix.SYS_VFORK}, unusable},
	} {
		if got := classify(tc.call); got != tc.want {
			t.Errorf("%s: class %d, want %d", tc.name, got, tc.want)
		}
	}
}
