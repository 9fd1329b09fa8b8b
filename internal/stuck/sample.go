package stuck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
)

// A thread that runs has no registers in /proc. The kernel can take a sample of it: a clock event
// (perf_event_open(2)) copies its registers and stack, while it runs in user space. It stops nothing, and ends with its descriptor.
const (
	sampledMax  = 32                     // threads
	sampleTime  = 300 * time.Millisecond // for a thread: it may wait for a CPU
	samplesTime = 3 * time.Second        // for all
	sampleStack = 32 << 10               // bytes
	samplePages = 32                     // of the event's ring: three samples
	samplePause = time.Millisecond
)

// sampledRegisters are the bits of asm/perf_regs.h of those in a ptrace.Regs that an unwinder needs.
const sampledRegisters = 0x1ff | 0xff<<16 // AX BX CX DX SI DI BP SP IP, R8 to R15

var errNoSample = errors.New("it ran, and no sample of it came")

// sampleOf samples a thread that runs.
func sampleOf(tid int) (*ptrace.Snapshot, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(time.Millisecond),
		Sample_type: unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER, Sample_regs_user: sampledRegisters,
		Sample_stack_user: sampleStack, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv, Wakeup: 1,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a sample of a running thread (perf_event_open): %w", err)
	}
	defer unix.Close(fd)
	page := unix.Getpagesize()
	ring, err := unix.Mmap(fd, 0, (1+samplePages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("a sample of a running thread: %w", err)
	}
	defer func() { _ = unix.Munmap(ring) }()
	head := (*uint64)(unsafe.Pointer(&ring[unsafe.Offsetof(unix.PerfEventMmapPage{}.Data_head)]))
	for deadline := time.Now().Add(sampleTime); time.Now().Before(deadline); time.Sleep(samplePause) {
		// Mapped writable, and never read up to: the kernel drops samples that have no room, and leaves the first.
		if n := atomic.LoadUint64(head); n > 0 {
			_ = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
			if s, err := parseSample(ring[page:]); err == nil {
				s.TID = tid
				return s, nil
			}
			return nil, errNoSample
		}
	}
	return nil, errNoSample
}

// parseSample parses the first record of a ring.
func parseSample(b []byte) (*ptrace.Snapshot, error) {
	le := binary.LittleEndian
	const (
		headerBytes = 8
		abi64       = 2 // PERF_SAMPLE_REGS_ABI_64
	)
	registers := bits.OnesCount64(sampledRegisters)
	if len(b) < headerBytes || le.Uint32(b) != unix.PERF_RECORD_SAMPLE {
		return nil, errNoSample
	}
	b = b[headerBytes:min(len(b), max(headerBytes, int(le.Uint16(b[6:]))))]
	if len(b) < 8*(registers+2) || le.Uint64(b) != abi64 {
		return nil, errNoSample
	}
	r := func(i int) uint64 { return le.Uint64(b[8*(1+i):]) }
	s := &ptrace.Snapshot{Base: r(7), Regs: ptrace.Regs{
		Rax: r(0), Rbx: r(1), Rcx: r(2), Rdx: r(3), Rsi: r(4), Rdi: r(5), Rbp: r(6), Rsp: r(7), Rip: r(8),
		R8: r(9), R9: r(10), R10: r(11), R11: r(12), R12: r(13), R13: r(14), R14: r(15), R15: r(16),
	}}
	size := le.Uint64(b[8*(1+registers):])
	b = b[8*(2+registers):]
	if size == 0 || size > uint64(len(b)) {
		return s, nil
	}
	copied := size
	if rest := b[size:]; len(rest) >= 8 {
		copied = min(size, le.Uint64(rest))
	}
	s.Stack = append([]byte(nil), b[:copied]...)
	return s, nil
}
