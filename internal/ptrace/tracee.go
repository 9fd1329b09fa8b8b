package ptrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests for which x/sys/unix has no function (include/uapi/linux/ptrace.h).
const (
	getRegSet   = 0x4204
	setRegSet   = 0x4205
	peekSigInfo = 0x4209
	getSigMask  = 0x420a
	setSigMask  = 0x420b

	ntPrStatus = 1
	ntXState   = 0x202

	xstateMax = 16 << 10 // AMX needs 11 KiB
)

// Tracee is one seized thread. It contains all buffers, so that they exist before the
// stop: nothing between Interrupt and Detach may allocate or enter the Go scheduler.
// Its methods run on the tracer's thread (Tracer.Do).
type Tracee struct {
	PID     int // the process of the thread; 0: not checked
	TID     int
	Regs    Regs   // valid after ReadRegs
	Mask    uint64 // valid after ReadMask
	xstate  [xstateMax]byte
	xlen    int
	iov     unix.Iovec
	status  uint32
	pending unix.Signal // seen by StepSyscall, not delivered yet
	alarm   alarm
	peek    struct {
		off   uint64
		flags uint32
		nr    int32
	}
	infos [32][128]byte // siginfo_t
	rseq  [3]uint64     // struct ptrace_rseq_configuration
}

// Seize attaches to tid without stopping it.
func Seize(tid int) (*Tracee, error) {
	c := &Tracee{TID: tid}
	if err := c.Seize(); err != nil {
		return nil, err
	}
	return c, nil
}

// Seize attaches to the thread without stopping it, and reuses the buffers. It never
// sets PTRACE_O_EXITKILL: the target must outlive the tool.
func (c *Tracee) Seize() error {
	if err := c.alarm.create(); err != nil {
		return err
	}
	if err := c.request(unix.PTRACE_SEIZE, 0, unix.PTRACE_O_TRACESYSGOOD); err != nil {
		c.alarm.free()
		return fmt.Errorf("seize thread %d: %w", c.TID, err)
	}
	return c.checkProcess()
}

// checkProcess fails, and detaches, if the thread does not belong to the process:
// another process may have got its thread ID just before the Seize, but not since.
func (c *Tracee) checkProcess() error {
	if c.PID == 0 || unix.Tgkill(c.PID, c.TID, 0) != unix.ESRCH {
		return nil
	}
	err := fmt.Errorf("thread %d is not of process %d: %w", c.TID, c.PID, ErrGone)
	if _, ierr := c.Interrupt(stopPatience); ierr != nil {
		return errors.Join(err, ierr)
	}
	return errors.Join(err, c.Release())
}

// Interrupt stops the thread and returns the kind of the stop: Interrupted, GroupStop
// or Exited. It delivers signals that arrive before the stop. ErrNoStop means that the
// thread did not stop within patience and that the tracer's OS thread must end to
// detach it. The interrupt has woken the thread all the same: a call that does not
// restart by itself returns EINTR, because RestartEINTR needs a stopped thread. A long
// patience costs such a thread nothing.
func (c *Tracee) Interrupt(patience time.Duration) (Stop, error) {
	c.alarm.set(patience)
	if err := c.request(unix.PTRACE_INTERRUPT, 0, 0); err != nil {
		return Stop{}, fmt.Errorf("interrupt thread %d: %w", c.TID, c.reap(err))
	}
	return c.interrupted()
}

// InterruptStopped moves a thread from any other stop to an Interrupted stop. The
// thread does not run in user mode in between, and the kernel's signal code runs when
// it leaves that stop.
func (c *Tracee) InterruptStopped(patience time.Duration) (Stop, error) {
	c.alarm.set(patience)
	if err := c.request(unix.PTRACE_INTERRUPT, 0, 0); err != nil {
		return Stop{}, fmt.Errorf("interrupt thread %d: %w", c.TID, err)
	}
	if err := c.request(unix.PTRACE_CONT, 0, uintptr(c.pending)); err != nil {
		return Stop{}, fmt.Errorf("continue thread %d: %w", c.TID, err)
	}
	c.pending = 0
	return c.interrupted()
}

func (c *Tracee) interrupted() (Stop, error) {
	for {
		stop, err := c.wait()
		if err != nil {
			c.alarm.free()
			return stop, fmt.Errorf("stop thread %d: %w", c.TID, err)
		}
		switch stop.Kind {
		case Exited:
			c.alarm.free()
			return stop, fmt.Errorf("stop thread %d: %w", c.TID, ErrGone)
		case Interrupted, GroupStop:
			return stop, nil
		case SignalStop:
			err = c.request(unix.PTRACE_CONT, 0, uintptr(stop.Signal))
		default:
			err = c.request(unix.PTRACE_CONT, 0, 0)
		}
		if err != nil {
			err = c.reap(err)
			c.alarm.free()
			return stop, fmt.Errorf("pass signal to thread %d: %w", c.TID, err)
		}
	}
}

// StepSyscall lets a stopped thread run to its next syscall entry or exit. It returns
// any other stop unchanged. If a signal stopped the thread, the InterruptStopped or
// Detach that must follow delivers it.
func (c *Tracee) StepSyscall(patience time.Duration) (Stop, error) {
	c.alarm.set(patience)
	if err := c.request(unix.PTRACE_SYSCALL, 0, 0); err != nil {
		return Stop{}, fmt.Errorf("run thread %d to a syscall: %w", c.TID, err)
	}
	stop, err := c.wait()
	if err != nil {
		return stop, fmt.Errorf("run thread %d to a syscall: %w", c.TID, err)
	}
	if stop.Kind == SignalStop {
		c.pending = stop.Signal
	}
	return stop, nil
}

// Detach detaches from the stopped thread, which continues.
func (c *Tracee) Detach() error {
	err := c.reap(c.request(unix.PTRACE_DETACH, 0, uintptr(c.pending)))
	c.pending = 0
	c.alarm.free()
	return err
}

// reap waits for the end of a thread for which a request has failed with ESRCH, and
// returns err. The tracer must reap a dead tracee: if an exec killed it, the exec
// waits until the tracer has reaped it, and holds a lock for which the next
// PTRACE_SEIZE in that process would wait (BUGS in ptrace(2)).
func (c *Tracee) reap(err error) error {
	if err != ErrGone || c.alarm.create() != nil {
		return err
	}
	defer c.alarm.free()
	c.alarm.set(reapPatience)
	for {
		stop, werr := c.wait()
		if werr != nil {
			return werr // neither dead nor stopped
		}
		if stop.Kind == Exited {
			return err
		}
	}
}

// reapPatience is how long reap waits for a killed thread to end.
const reapPatience = 200 * time.Millisecond

// Release detaches from a thread that Interrupt has stopped and that is otherwise
// unchanged; RestartEINTR first repairs an interrupted call.
func (c *Tracee) Release() error {
	if err := c.ReadRegs(); err == nil && RestartEINTR(&c.Regs) {
		if err := c.WriteRegs(&c.Regs); err != nil {
			_ = c.Detach()
			return err
		}
	}
	return c.Detach()
}

// ReadRegs reads the general registers into c.Regs.
func (c *Tracee) ReadRegs() error {
	return c.regset(getRegSet, ntPrStatus, unsafe.Pointer(&c.Regs), int(unsafe.Sizeof(c.Regs)))
}

// WriteRegs sets the general registers.
func (c *Tracee) WriteRegs(r *Regs) error {
	return c.regset(setRegSet, ntPrStatus, unsafe.Pointer(r), int(unsafe.Sizeof(*r)))
}

// ReadXState reads the vector state in XSAVE layout. The slice is valid until the
// next call.
func (c *Tracee) ReadXState() ([]byte, error) {
	if err := c.regset(getRegSet, ntXState, unsafe.Pointer(&c.xstate[0]), len(c.xstate)); err != nil {
		return nil, err
	}
	c.xlen = int(c.iov.Len)
	return withoutTiles(c.xstate[:c.xlen]), nil
}

// ReadMask reads the mask of blocked signals into c.Mask. For a thread in
// sigsuspend or ppoll this is the mask that it has after the call.
func (c *Tracee) ReadMask() error {
	return c.request(getSigMask, 8, uintptr(unsafe.Pointer(&c.Mask)))
}

// WriteMask sets the mask of blocked signals.
func (c *Tracee) WriteMask(mask *uint64) error {
	return c.request(setSigMask, 8, uintptr(unsafe.Pointer(mask)))
}

// Pending reports whether a signal that mask does not block is pending for the
// thread or for its process.
func (c *Tracee) Pending(mask uint64) (bool, error) {
	for flags := range uint32(2) { // 0: the thread's queue, 1: PTRACE_PEEKSIGINFO_SHARED
		c.peek.off, c.peek.flags, c.peek.nr = 0, flags, int32(len(c.infos))
		n, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, peekSigInfo, uintptr(c.TID),
			uintptr(unsafe.Pointer(&c.peek)), uintptr(unsafe.Pointer(&c.infos[0])), 0, 0)
		if errno != 0 {
			return false, ptraceError(errno)
		}
		for i := range int(n) {
			signo := *(*int32)(unsafe.Pointer(&c.infos[i][0]))
			if signo > 0 && mask>>(signo-1)&1 == 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// PokeText writes whole words into the thread's memory, also in mappings that are not
// writable. It is for kernels on which /proc/PID/mem cannot do that
// (proc_mem.force_override, Linux 6.12). It takes about 0.3 µs a word.
func (c *Tracee) PokeText(addr uint64, b []byte) error {
	for i := 0; i+8 <= len(b); i += 8 {
		word := uintptr(binary.LittleEndian.Uint64(b[i:]))
		if err := c.request(unix.PTRACE_POKETEXT, uintptr(addr)+uintptr(i), word); err != nil {
			return err
		}
	}
	return nil
}

func (c *Tracee) regset(req uintptr, note uintptr, p unsafe.Pointer, n int) error {
	c.iov.Base, c.iov.Len = (*byte)(p), uint64(n)
	return c.request(req, note, uintptr(unsafe.Pointer(&c.iov)))
}

func (c *Tracee) request(req, addr, data uintptr) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, req, uintptr(c.TID), addr, data, 0, 0)
	return ptraceError(errno)
}

// ptraceError must not allocate: it runs while a thread is stopped.
func ptraceError(errno unix.Errno) error {
	switch errno {
	case 0:
		return nil
	case unix.ESRCH:
		return ErrGone
	case unix.EPERM, unix.EACCES:
		return ErrDenied
	}
	return errno
}

// RSeqArea returns the address of the thread's registered struct rseq, 0 if it has
// none. known is false if the kernel cannot report it (before 5.13).
func (c *Tracee) RSeqArea() (area uint64, known bool) {
	const getRSeqConfiguration = 0x420f
	c.rseq = [3]uint64{}
	size, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, getRSeqConfiguration, uintptr(c.TID),
		unsafe.Sizeof(c.rseq), uintptr(unsafe.Pointer(&c.rseq)), 0, 0)
	if errno != 0 || size < 8 {
		return 0, false
	}
	return c.rseq[0], true
}
