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

	sharedFile, payloadFile = "rtl-boot", "rtl-payload" // as the bootstrap calls its memfds
)

// bootChannel is our end of the file that we share with the bootstrap thread.
type bootChannel struct {
	t       *target.Target
	mem     []byte
	s       *bootShared
	payload int // descriptor of the payload's file, in the target
	tid     int // the bootstrap thread, as we see it
}

// openBootChannel maps the shared file: it must be the one of this injection, and
// sealed, or a truncation could kill us with SIGBUS.
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

// send gives a command. The thread may be busy with an earlier one that we
// have given up: it looks at this one next.
func (k *bootChannel) send(command uint32) uint32 {
	k.s.Command = command
	seq := atomic.AddUint32(&k.s.Command_seq, 1)
	futex(&k.s.Command_seq, futexWake, 1<<30, nil)
	return seq
}

// ask gives a command and waits for the answer.
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
			if atomic.LoadUint32(&k.s.Answer_seq) == seq { // we were asleep for long
				return k.s.Result, nil
			}
			if err := k.t.WaitGone(exitPatience); err != nil { // it went with its process
				return 0, &DiedError{Step: step, Err: err}
			}
			return 0, fmt.Errorf("%s: %w", step, ErrLeft)
		}
		if time.Since(begin) > patience {
			return 0, &TimeoutError{PID: k.t.PID, Step: step, After: patience}
		}
	}
}

// left reports whether the bootstrap thread is gone.
func (k *bootChannel) left() bool {
	_, err := k.t.ThreadStat(k.tid)
	return target.ThreadEnded(err)
}

// explain says so in err, which may be a mere consequence.
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

// futex on shared memory: no FUTEX_PRIVATE_FLAG. Any return means look again.
func futex(word *uint32, op int, value uint32, timeout *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op), uintptr(value),
		uintptr(unsafe.Pointer(timeout)), 0, 0)
}

// cText is a NUL-terminated C string.
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
