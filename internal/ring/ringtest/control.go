package ringtest

import (
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Target is the payload's mapping of a control block.
type Target struct {
	File    *os.File
	Control *ring.ControlLayout
	Grace   *ring.GraceLayout
	Mem     []byte
}

// NewTarget makes a control block without a control thread.
func NewTarget(t testing.TB) *Target {
	t.Helper()
	file := named(t, ring.ControlName, ring.ControlBytes)
	mem := mapAll(t, file)
	target := &Target{
		File:    file,
		Control: (*ring.ControlLayout)(unsafe.Pointer(&mem[0])),
		Grace:   (*ring.GraceLayout)(unsafe.Pointer(&mem[ring.GraceOffset])),
		Mem:     mem,
	}
	target.Control.Magic = ring.ControlMagic
	target.Control.ABIVersion = ring.ABIVersion
	target.Control.SizeBytes = ring.ControlBytes
	return target
}

// Serve answers one command, as the control thread would: handle gets the
// command and its environment buffer and returns the result.
func (t *Target) Serve(handle func(cmd ring.Command, env []byte) int32) {
	c := t.Control
	seq := atomic.LoadUint32(&c.CommandSeq)
	for seq == atomic.LoadUint32(&c.AnswerSeq) {
		futex(&c.CommandSeq, futexWait, seq)
		seq = atomic.LoadUint32(&c.CommandSeq)
	}
	env := t.Mem[ring.EnvOffset:][:atomic.LoadUint32(&c.EnvLen)]
	result := handle(ring.Command(atomic.LoadUint32(&c.Command)), env)
	atomic.StoreInt32(&c.Result, result)
	atomic.StoreUint32(&c.AnswerSeq, seq)
	futex(&c.AnswerSeq, futexWake, 1)
}

// From linux/futex.h.
const (
	futexWait = 0
	futexWake = 1
)

func futex(word *uint32, op uintptr, value uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), op, uintptr(value), 0, 0, 0)
}
