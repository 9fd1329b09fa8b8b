package ptrace

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrFilterHidden means that the kernel does not let the tool read the thread's
// seccomp filters. Reading needs CAP_SYS_ADMIN, and the tool itself must not run
// under a filter (seccomp_get_filter).
var ErrFilterHidden = errors.New("seccomp filters cannot be read")

// Limits of a thread's filters: the number of filters, which is the tool's limit, and
// the number of all instructions, which is the kernel's (MAX_INSNS_PER_PATH).
const (
	filtersMax = 256
	insnsMax   = 32768
)

// Filters holds a thread's seccomp filters, in memory allocated before the stop.
type Filters struct {
	insns  [insnsMax]unix.SockFilter
	ends   [filtersMax]int // end of each filter in insns
	number int
}

// Programs returns the filters, the last installed first.
func (f *Filters) Programs() []Program {
	programs, begin := make([]Program, f.number), 0
	for i, end := range f.ends[:f.number] {
		programs[i], begin = f.insns[begin:end], end
	}
	return programs
}

// ReadFilters reads the filters of a stopped thread.
func (c *Tracee) ReadFilters(f *Filters) error {
	end := 0
	for f.number = 0; f.number < filtersMax; f.number++ {
		n, errno := c.filter(f.number, nil)
		switch {
		case errno == unix.ENOENT:
			return nil
		case errno != 0:
			return fmt.Errorf("%w: %w", ErrFilterHidden, errno)
		case n == 0 || n > unix.BPF_MAXINSNS || end+n > insnsMax:
			return fmt.Errorf("seccomp filter of %d instructions", n)
		}
		if _, errno := c.filter(f.number, &f.insns[end]); errno != 0 {
			return fmt.Errorf("%w: %w", ErrFilterHidden, errno)
		}
		end += n
		f.ends[f.number] = end
	}
	return errors.New("too many seccomp filters")
}

// AllowRestart reports whether the filters allow restart_syscall(2), by which the
// kernel continues a timed wait.
func (f *Filters) AllowRestart() bool {
	return Decide(f.Programs(), unix.SYS_RESTART_SYSCALL, [6]uint64{}).Allows()
}

// AvoidRestart makes a stopped thread issue its call again where the kernel would
// continue it by restart_syscall(2), for which a filter may kill. The call's time-out
// then starts from its full length, but the thread survives, even if the tool dies
// before it has read the filters. allow undoes this; it is nil if the thread is in no
// such call.
func (c *Tracee) AvoidRestart() (allow func() error, err error) {
	if err := c.ReadRegs(); err != nil {
		return nil, err
	}
	before := c.Regs
	if !ReissueTimed(&c.Regs) {
		return nil, nil
	}
	allow = func() error {
		c.Regs = before
		return c.WriteRegs(&before)
	}
	return allow, c.WriteRegs(&c.Regs)
}

// restartIfAllowed reads the filters of the stopped thread into f, and lets the kernel
// continue a timed wait by restart_syscall(2) only if they allow that.
func (c *Tracee) restartIfAllowed(f *Filters) error {
	allow, err := c.AvoidRestart()
	if err != nil || allow == nil || c.ReadFilters(f) != nil || !f.AllowRestart() {
		return err
	}
	return allow()
}

// filter returns the length of filter number i and, unless into is nil, its instructions.
func (c *Tracee) filter(i int, into *unix.SockFilter) (n int, errno unix.Errno) {
	const getFilter = 0x420c // PTRACE_SECCOMP_GET_FILTER
	r, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, getFilter, uintptr(c.TID), uintptr(i),
		uintptr(unsafe.Pointer(into)), 0, 0)
	return int(r), errno
}

// Program is a classic BPF program.
type Program []unix.SockFilter

// Action is the result of a filter (seccomp(2)).
type Action uint32

// Allows reports whether the kernel makes the syscall, logged or not.
func (a Action) Allows() bool {
	return a&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ALLOW ||
		a&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_LOG
}

// Refuses reports whether the syscall only returns an error.
func (a Action) Refuses() bool {
	return a&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO
}

func (a Action) String() string {
	switch a & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_LOG:
		return "allow"
	case unix.SECCOMP_RET_ERRNO:
		return fmt.Sprintf("refuse with %v", unix.Errno(a&unix.SECCOMP_RET_DATA))
	case unix.SECCOMP_RET_TRAP:
		return "send SIGSYS"
	case unix.SECCOMP_RET_KILL_PROCESS, unix.SECCOMP_RET_KILL_THREAD:
		return "kill"
	}
	return "ask another process"
}

// Decide runs all filters on one syscall and returns the strictest action, which is
// the smallest as a signed number.
func Decide(filters []Program, nr uint64, args [6]uint64) Action {
	action := Action(unix.SECCOMP_RET_ALLOW)
	for _, p := range filters {
		a := p.run(nr, args)
		if int32(a&unix.SECCOMP_RET_ACTION_FULL) < int32(action&unix.SECCOMP_RET_ACTION_FULL) {
			action = a
		}
	}
	return action
}

// run interprets the program on struct seccomp_data { nr, arch, ip, args }.
// Jumps go forward only. A program that the kernel would not have accepted kills.
func (p Program) run(nr uint64, args [6]uint64) Action {
	const kill = Action(unix.SECCOMP_RET_KILL_PROCESS & 0xffffffff)
	var data [16]uint32
	data[0], data[1] = uint32(nr), unix.AUDIT_ARCH_X86_64
	for i, a := range args {
		data[4+2*i], data[5+2*i] = uint32(a), uint32(a>>32)
	}
	var a, x uint32
	var m [16]uint32
	for pc := 0; pc >= 0 && pc < len(p); pc++ {
		in := p[pc]
		operand := in.K
		if in.Code&unix.BPF_X != 0 {
			operand = x
		}
		switch in.Code & 7 {
		case unix.BPF_LD, unix.BPF_LDX:
			v, ok := load(in, data[:], m[:])
			if !ok {
				return kill
			}
			if in.Code&7 == unix.BPF_LD {
				a = v
			} else {
				x = v
			}
		case unix.BPF_ST, unix.BPF_STX:
			if in.K >= 16 {
				return kill
			}
			if m[in.K] = a; in.Code&7 == unix.BPF_STX {
				m[in.K] = x
			}
		case unix.BPF_ALU:
			var ok bool
			if a, ok = alu(in.Code&0xf0, a, operand); !ok {
				return kill
			}
		case unix.BPF_JMP:
			pc += jump(in, a, operand)
		case unix.BPF_RET:
			if in.Code&0x18 == unix.BPF_A {
				return Action(a)
			}
			return Action(in.K)
		case unix.BPF_MISC:
			if in.Code&0xf8 == unix.BPF_TXA {
				a = x
			} else {
				x = a
			}
		}
	}
	return kill
}

func load(in unix.SockFilter, data, m []uint32) (uint32, bool) {
	switch in.Code & 0xe0 {
	case unix.BPF_ABS:
		if in.K%4 == 0 && int(in.K/4) < len(data) {
			return data[in.K/4], true
		}
	case unix.BPF_IMM:
		return in.K, true
	case unix.BPF_MEM:
		if int(in.K) < len(m) {
			return m[in.K], true
		}
	case unix.BPF_LEN:
		return uint32(4 * len(data)), true
	}
	return 0, false
}

func alu(op uint16, a, k uint32) (uint32, bool) {
	switch op {
	case unix.BPF_ADD:
		return a + k, true
	case unix.BPF_SUB:
		return a - k, true
	case unix.BPF_MUL:
		return a * k, true
	case unix.BPF_DIV:
		if k == 0 {
			return 0, false
		}
		return a / k, true
	case unix.BPF_AND:
		return a & k, true
	case unix.BPF_OR:
		return a | k, true
	case unix.BPF_XOR:
		return a ^ k, true
	case unix.BPF_LSH:
		return a << (k & 31), true // masked as in the kernel
	case unix.BPF_RSH:
		return a >> (k & 31), true
	case unix.BPF_NEG:
		return -a, true
	}
	return 0, false
}

func jump(in unix.SockFilter, a, k uint32) int {
	var yes bool
	switch in.Code & 0xf0 {
	case unix.BPF_JA:
		return int(min(in.K, unix.BPF_MAXINSNS))
	case unix.BPF_JEQ:
		yes = a == k
	case unix.BPF_JGT:
		yes = a > k
	case unix.BPF_JGE:
		yes = a >= k
	case unix.BPF_JSET:
		yes = a&k != 0
	}
	if yes {
		return int(in.Jt)
	}
	return int(in.Jf)
}
