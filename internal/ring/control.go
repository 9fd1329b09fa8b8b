package ring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// Control is the control block of one target. Several goroutines may call its methods.
type Control struct {
	mem      []byte
	shared   *ControlLayout
	grace    *GraceLayout
	counters *Counters

	// Sent, if set, is called after a command was sent; if it fails, the command is abandoned.
	Sent func(Command) error

	mailbox sync.Mutex // one command at a time
	gone    <-chan struct{}
}

// OpenControl maps a control block and checks its identity. f can be closed afterwards.
func OpenControl(f *os.File) (*Control, error) {
	size, err := sealedSize(f)
	if err != nil {
		return nil, err
	}
	if size != ControlBytes {
		return nil, fmt.Errorf("%w control block: %d bytes, expected %d", ErrMalformed, size, ControlBytes)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, ControlBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map control block: %w", err)
	}
	c := &Control{
		mem:      mem,
		shared:   (*ControlLayout)(unsafe.Pointer(&mem[0])),
		counters: (*Counters)(unsafe.Pointer(&mem[CountersOffset])),
		grace:    (*GraceLayout)(unsafe.Pointer(&mem[GraceOffset])),
	}
	if err := c.checkIdentity(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Control) checkIdentity() error {
	magic := atomic.LoadUint64(&c.shared.Magic)
	version := atomic.LoadUint32(&c.shared.ABIVersion)
	size := atomic.LoadUint32(&c.shared.SizeBytes)
	switch {
	case magic == 0: // which is stored last
		return fmt.Errorf("control block: %w", ErrUnfinished)
	case magic != ControlMagic:
		return fmt.Errorf("%w control block: magic %#x", ErrMalformed, magic)
	case version != ABIVersion:
		return fmt.Errorf("control block: %w: %d, this tool speaks %d", ErrVersion, version, ABIVersion)
	case size != ControlBytes:
		return fmt.Errorf("%w control block: it says %d bytes, expected %d", ErrMalformed, size, ControlBytes)
	}
	return nil
}

// Close unmaps the block; the target keeps its own mapping.
func (c *Control) Close() error { return unix.Munmap(c.mem) }

// Snapshot is the payload's state. Its fields are read one by one: each is correct, but the
// payload may have changed others in between.
type Snapshot struct {
	PID        uint32 // in the target's pid namespace
	ControlTID uint32 // 0: no control thread
	BuildID    []byte

	State      State
	Generation uint32
	LastEnd    End
	WorkerTID  uint32
	ArmedNS    uint64
	DetachedNS uint64

	RingSizeBytes uint64 // 0: no ring
	RingInode     uint64
	RingFD        int32 // in the target
	ControlFD     int32

	HooksPatched   uint32
	HooksBuried    uint32
	HooksMissing   uint32
	QueuesKept     uint32
	QueuesProfiled uint32
	SignalsKept    uint32
	CopiesProfiled bool // the payload has turned profiling of copies on; it stays on

	Error     unix.Errno // of the last failure, 0: none
	ErrorText string     // one line, sanitized
}

// Snapshot reads identity and state.
func (c *Control) Snapshot() Snapshot {
	s := c.shared
	return Snapshot{
		PID:        atomic.LoadUint32(&s.PID),
		ControlTID: atomic.LoadUint32(&s.ControlTID),
		BuildID:    bytes.Clone(s.BuildID[:min(atomic.LoadUint32(&s.BuildIDLen), BuildIDMax)]),

		State:      State(atomic.LoadUint32(&s.State)),
		Generation: atomic.LoadUint32(&s.Generation),
		LastEnd:    End(atomic.LoadUint32(&s.LastEnd)),
		WorkerTID:  atomic.LoadUint32(&s.WorkerTID),
		ArmedNS:    atomic.LoadUint64(&s.ArmedNS),
		DetachedNS: atomic.LoadUint64(&s.DetachedNS),

		RingSizeBytes: atomic.LoadUint64(&s.RingSize),
		RingInode:     atomic.LoadUint64(&s.RingInode),
		RingFD:        atomic.LoadInt32(&s.RingFD),
		ControlFD:     atomic.LoadInt32(&s.ControlFD),

		HooksPatched:   atomic.LoadUint32(&s.HooksPatched),
		HooksBuried:    atomic.LoadUint32(&s.HooksBuried),
		HooksMissing:   atomic.LoadUint32(&s.HooksMissing),
		QueuesKept:     atomic.LoadUint32(&s.QueuesKept),
		QueuesProfiled: atomic.LoadUint32(&s.QueuesProfiled),
		SignalsKept:    atomic.LoadUint32(&s.SignalsKept),
		CopiesProfiled: atomic.LoadUint32(&s.CopiesProfiled) != 0,

		Error:     errnoOf(atomic.LoadInt32(&s.Error)),
		ErrorText: c.errorText(),
	}
}

// Counters reads every counter once.
func (c *Control) Counters() Counters {
	var out Counters
	const words = CountersStructBytes / 8
	from := (*[words]uint64)(unsafe.Pointer(c.counters))
	to := (*[words]uint64)(unsafe.Pointer(&out))
	for i := range to {
		to[i] = atomic.LoadUint64(&from[i])
	}
	return out
}

// WaitState sleeps while the state is old, at most for timeout, and returns the state.
func (c *Control) WaitState(old State, timeout time.Duration) State {
	for deadline := time.Now().Add(timeout); ; {
		now := State(atomic.LoadUint32(&c.shared.State))
		left := time.Until(deadline)
		if now != old || left <= 0 {
			return now
		}
		sleepOn(&c.shared.State, uint32(old), left)
	}
}

// errorText copies and sanitizes the payload's text.
func (c *Control) errorText() string {
	text := c.shared.ErrorText // sanitize the copy, which cannot change
	line, _, _ := bytes.Cut(text[:], []byte{0})
	return sanitize.Text(string(line))
}

// errnoOf turns the payload's -errno into an error number; nonsense is EPROTO.
func errnoOf(result int32) unix.Errno {
	const maxErrno = 4095
	if result > 0 || result < -maxErrno {
		return unix.EPROTO
	}
	return unix.Errno(-result)
}
