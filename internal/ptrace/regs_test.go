package ptrace

import (
	"testing"

	"golang.org/x/sys/unix"
)

const userMode = ^uint64(0) // orig_rax outside of syscalls

func code(n int64) uint64 { return uint64(n) }

func TestResume(t *testing.T) {
	const rip = 0x7f0000001002
	for _, tc := range []struct {
		name  string
		regs  Regs
		where Where
		rip   uint64
		rax   uint64
	}{
		{"user mode", Regs{Orig_rax: userMode, Rax: code(-512), Rip: rip}, User, rip, code(-512)},
		{"result of a read", Regs{Orig_rax: unix.SYS_READ, Rax: 5, Rip: rip}, User, rip, 5},
		{"error of a read", Regs{Orig_rax: unix.SYS_READ, Rax: code(-11), Rip: rip}, User, rip, code(-11)},
		{"read", Regs{Orig_rax: unix.SYS_READ, Rax: code(-512), Rip: rip}, Waiting, rip - 2, unix.SYS_READ},
		{"no interrupt", Regs{Orig_rax: unix.SYS_READ, Rax: code(-513), Rip: rip}, Waiting, rip - 2, unix.SYS_READ},
		{"pause", Regs{Orig_rax: unix.SYS_PAUSE, Rax: code(-514), Rip: rip}, Waiting, rip - 2, unix.SYS_PAUSE},
		{"epoll_wait", Regs{Orig_rax: unix.SYS_EPOLL_WAIT, Rax: code(-4), Rip: rip}, Waiting, rip - 2, unix.SYS_EPOLL_WAIT},
		{"close keeps its EINTR", Regs{Orig_rax: unix.SYS_CLOSE, Rax: code(-4), Rip: rip}, User, rip, code(-4)},
		{"nanosleep", Regs{Orig_rax: unix.SYS_NANOSLEEP, Rax: code(-516), Rip: rip}, TimedWait, rip - 2, unix.SYS_NANOSLEEP},
		{"poll, 5 s", Regs{Orig_rax: unix.SYS_POLL, Rax: code(-516), Rdx: 5000, Rip: rip}, TimedWait, rip - 2, unix.SYS_POLL},
		{"poll, no time-out", Regs{Orig_rax: unix.SYS_POLL, Rax: code(-516), Rdx: 0xffffffff, Rip: rip}, Waiting, rip - 2, unix.SYS_POLL},
		{"futex, relative", Regs{Orig_rax: unix.SYS_FUTEX, Rax: code(-516), Rsi: 128, Rip: rip}, TimedWait, rip - 2, unix.SYS_FUTEX},
		{"futex, absolute", Regs{Orig_rax: unix.SYS_FUTEX, Rax: code(-516), Rsi: 0x189, Rip: rip}, Waiting, rip - 2, unix.SYS_FUTEX},
		{"restart_syscall", Regs{Orig_rax: unix.SYS_RESTART_SYSCALL, Rax: code(-516), Rip: rip}, TimedWait, rip - 2, unix.SYS_RESTART_SYSCALL},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.regs
			got, where := Resume(&tc.regs)
			if where != tc.where || got.Rip != tc.rip || got.Rax != tc.rax {
				t.Errorf("where %d, rip %#x, rax %d; want %d, %#x, %d", where, got.Rip, int64(got.Rax), tc.where, tc.rip, int64(tc.rax))
			}
			if tc.regs != before {
				t.Error("the argument was changed")
			}
		})
	}
}

func TestRestartEINTR(t *testing.T) {
	for _, tc := range []struct {
		name string
		nr   uint64
		rax  int64
		want int64
	}{
		{"epoll_wait", unix.SYS_EPOLL_WAIT, -4, -514},
		{"a restart code stays", unix.SYS_READ, -512, -512},
		{"a result stays", unix.SYS_READ, 4, 4},
		{"close", unix.SYS_CLOSE, -4, -4},
		{"connect", unix.SYS_CONNECT, -4, -4},
		{"user mode", userMode, -4, -4},
	} {
		r := Regs{Orig_rax: tc.nr, Rax: code(tc.rax)}
		if changed := RestartEINTR(&r); int64(r.Rax) != tc.want || changed != (tc.want != tc.rax) {
			t.Errorf("%s: rax %d, changed %v; want %d", tc.name, int64(r.Rax), changed, tc.want)
		}
	}
}

func TestClassify(t *testing.T) {
	stopped := func(sig unix.Signal, event uint32) uint32 { return event<<16 | uint32(sig)<<8 | 0x7f }
	for _, tc := range []struct {
		name   string
		status uint32
		want   Stop
	}{
		{"exit code 3", 3 << 8, Stop{Kind: Exited}},
		{"killed", uint32(unix.SIGKILL), Stop{Kind: Exited}},
		{"interrupted", stopped(unix.SIGTRAP, unix.PTRACE_EVENT_STOP), Stop{Kind: Interrupted}},
		{"group stop", stopped(unix.SIGTSTP, unix.PTRACE_EVENT_STOP), Stop{GroupStop, unix.SIGTSTP}},
		{"signal", stopped(unix.SIGUSR1, 0), Stop{SignalStop, unix.SIGUSR1}},
		{"a SIGTRAP of its own", stopped(unix.SIGTRAP, 0), Stop{SignalStop, unix.SIGTRAP}},
		{"real-time signal", stopped(64, 0), Stop{SignalStop, 64}},
		{"syscall", stopped(syscallStop, 0), Stop{EventStop, syscallStop}},
		{"exec event", stopped(unix.SIGTRAP, unix.PTRACE_EVENT_EXEC), Stop{EventStop, unix.SIGTRAP}},
	} {
		if got := Classify(tc.status); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestDecide(t *testing.T) {
	const nr, arg0 = 0, 16 // offsets in struct seccomp_data
	filter := func(number uint32, action uint32) Program {
		return Program{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: number},
			{Code: unix.BPF_RET | unix.BPF_K, K: action},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
	}
	flags := Program{ // refuses CLONE_NEWUSER in the first argument
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: arg0},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 0, Jf: 1, K: unix.CLONE_NEWUSER},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	const kill = unix.SECCOMP_RET_KILL_PROCESS & 0xffffffff
	for _, tc := range []struct {
		name    string
		filters []Program
		nr      uint64
		args    [6]uint64
		allows  bool
		refuses bool
	}{
		{"no filter", nil, unix.SYS_MMAP, [6]uint64{}, true, false},
		{"another call", []Program{filter(unix.SYS_CLONE, kill)}, unix.SYS_MMAP, [6]uint64{}, true, false},
		{"killed", []Program{filter(unix.SYS_MMAP, kill)}, unix.SYS_MMAP, [6]uint64{}, false, false},
		{"logged", []Program{filter(unix.SYS_MMAP, unix.SECCOMP_RET_LOG)}, unix.SYS_MMAP, [6]uint64{}, true, false},
		{
			"the strictest counts",
			[]Program{filter(unix.SYS_MMAP, unix.SECCOMP_RET_ERRNO), filter(unix.SYS_MMAP, kill)},
			unix.SYS_MMAP,
			[6]uint64{},
			false, false,
		},
		{"argument refused", []Program{flags}, unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER}, false, true},
		{"argument allowed", []Program{flags}, unix.SYS_CLONE, [6]uint64{unix.CLONE_VM}, true, false},
		{"runs off its end", []Program{{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr}}}, 0, [6]uint64{}, false, false},
		{"reads beyond the data", []Program{{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 64}}}, 0, [6]uint64{}, false, false},
	} {
		a := Decide(tc.filters, tc.nr, tc.args)
		if a.Allows() != tc.allows || a.Refuses() != tc.refuses {
			t.Errorf("%s: %v; want allows %v, refuses %v", tc.name, a, tc.allows, tc.refuses)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add([]byte{0x20, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0xff, 0x7f})
	f.Fuzz(func(_ *testing.T, b []byte) {
		var p Program
		for ; len(b) >= 8; b = b[8:] {
			p = append(p, unix.SockFilter{
				Code: uint16(b[0]) | uint16(b[1])<<8, Jt: b[2], Jf: b[3],
				K: uint32(b[4]) | uint32(b[5])<<8 | uint32(b[6])<<16 | uint32(b[7])<<24,
			})
		}
		Decide([]Program{p}, 1, [6]uint64{})
	})
}
