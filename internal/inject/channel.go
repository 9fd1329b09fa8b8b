package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

const (
	envMax  = len(bootShared{}.Env)
	nameMax = len(bootShared{}.Name)
	pathMax = len(bootShared{}.Path)

	sharedFile, payloadFile = "rtl-boot", "rtl-payload" // the names of the bootstrap's memfds
)

// bootChannel is the tool's end of the memory that it shares with the bootstrap thread.
type bootChannel struct {
	t       *target.Target
	mem     []byte
	s       *bootShared
	payload int // file descriptor of the payload's memfd in the target
	tid     int // the bootstrap thread, in the tool's pid namespace
}

// openBootChannel maps the shared file. It refuses a file of another injection, and a
// file that is not sealed: a truncation could kill the tool by SIGBUS.
func openBootChannel(t *target.Target, b *boot, tid int) (*bootChannel, error) {
	f, err := t.OpenMemfdOf(tid, int(b.Shared_fd), sharedFile, os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open the bootstrap's file: %w", err)
	}
	defer f.Close()
	size, err := target.SealedSize(f)
	if err == nil && size < bootSharedSize {
		err = fmt.Errorf("%d bytes: %w", size, target.ErrMalformed)
	}
	if err != nil {
		return nil, fmt.Errorf("bootstrap's file: %w", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, bootSharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the bootstrap's file: %w", err)
	}
	k := &bootChannel{t: t, mem: mem, s: (*bootShared)(unsafe.Pointer(&mem[0])), payload: int(b.Payload_fd), tid: tid}
	if k.s.Nonce != b.Nonce {
		k.close()
		return nil, fmt.Errorf("bootstrap's file: nonce of another injection: %w", target.ErrMalformed)
	}
	return k, nil
}

func (k *bootChannel) close() { _ = unix.Munmap(k.mem) }

// send posts a command. If the thread still executes an earlier command, on which the
// tool has given up, it reads this one next.
func (k *bootChannel) send(command uint32) uint32 {
	k.s.Command = command
	seq := atomic.AddUint32(&k.s.Command_seq, 1)
	futex(&k.s.Command_seq, futexWake, 1<<30, nil)
	return seq
}

// ask posts a command and waits for the answer. step describes it for errors; progress,
// if not nil, is called about every millisecond.
func (k *bootChannel) ask(ctx context.Context, command uint32, step string, patience time.Duration, progress func()) (int32, error) {
	const slice = time.Millisecond
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%s: %w", step, err)
	}
	seq := k.send(command)
	for begin := time.Now(); ; {
		answered := atomic.LoadUint32(&k.s.Answer_seq)
		if answered == seq {
			return k.s.Result, nil
		}
		ts := unix.NsecToTimespec(slice.Nanoseconds())
		futex(&k.s.Answer_seq, futexWait, answered, &ts)
		if progress != nil {
			progress()
		}
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("%s: %w", step, err)
		}
		if err := k.t.CheckIdentity(); err != nil {
			return 0, &DiedError{Step: step, Err: err}
		}
		if k.left() {
			if atomic.LoadUint32(&k.s.Answer_seq) == seq { // it answered just before it ended
				return k.s.Result, nil
			}
			if err := k.t.WaitGone(exitPatience); err != nil { // the whole process has ended
				return 0, &DiedError{Step: step, Err: err}
			}
			return 0, fmt.Errorf("%s: %w", step, ErrLeft)
		}
		if time.Since(begin) > patience {
			return 0, &TimeoutError{PID: k.t.PID, Step: step, After: patience}
		}
	}
}

// left reports whether the bootstrap thread has ended.
func (k *bootChannel) left() bool {
	_, err := k.t.ThreadStat(k.tid)
	return target.ThreadEnded(err)
}

// explain adds ErrLeft to err if the bootstrap thread has ended: err may be only a
// consequence of that.
func (k *bootChannel) explain(err error) error {
	if k.left() && k.t.CheckIdentity() == nil && !errors.Is(err, ErrLeft) {
		return fmt.Errorf("%w: %w", ErrLeft, err)
	}
	return err
}

// <linux/futex.h>
const (
	futexWait = 0
	futexWake = 1
)

// futex operates on shared memory, so without FUTEX_PRIVATE_FLAG. The caller checks the
// word again after any return.
func futex(word *uint32, op int, value uint32, timeout *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op), uintptr(value),
		uintptr(unsafe.Pointer(timeout)), 0, 0)
}

// cText converts a NUL-terminated C string.
func cText(s []int8) string {
	b := make([]byte, 0, len(s))
	for _, c := range s {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

func setText(to []int8, s string) {
	n := min(len(s), len(to)-1)
	for i := range n {
		to[i] = int8(s[i])
	}
	to[n] = 0
}
