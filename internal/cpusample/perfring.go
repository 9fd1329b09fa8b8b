package cpusample

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
)

// perfPages are the pages of a ring's data: 17 samples. The kernel wants a power of 2.
const perfPages = 128

// perfRegisters are the registers of a sample: AX to IP without the segments, and R8 to R15 (arch/x86/include/uapi/asm/perf_regs.h).
const perfRegisters = 0xff01ff

// perfOrder is the place in DWARF's order of each of these registers.
var perfOrder = [17]int{0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15}

// perfRing is a ring of perf_event_open(2), which the kernel fills.
type perfRing struct {
	pages []byte
	body  []byte // of the record that was read last
}

func newPerfRing(fd int) (*perfRing, error) {
	pages, err := unix.Mmap(fd, 0, (1+perfPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &perfRing{pages: pages}, nil
}

func (r *perfRing) close() { _ = unix.Munmap(r.pages) }

// drain calls take for each sample in the ring, with the mode in which its thread ran. It returns how many had no room.
func (r *perfRing) drain(take func(body []byte, mode uint32)) (lost uint64) {
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.pages[0]))
	data := r.pages[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&control.Data_head), control.Data_tail
	for tail < head {
		var header [8]byte
		copyRing(header[:], data, tail)
		kind, misc, size := binary.LittleEndian.Uint32(header[:]), binary.LittleEndian.Uint16(header[4:]), binary.LittleEndian.Uint16(header[6:])
		if size < 8 || uint64(size) > head-tail {
			tail = head // not by the kernel
			break
		}
		r.body = append(r.body[:0], make([]byte, size-8)...)
		copyRing(r.body, data, tail+8)
		tail += uint64(size)
		switch {
		case kind == unix.PERF_RECORD_LOST && len(r.body) >= 16:
			lost += binary.LittleEndian.Uint64(r.body[8:])
		case kind == unix.PERF_RECORD_SAMPLE && misc&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_KERNEL:
			take(r.body, cputrace.RanKernel)
		case kind == unix.PERF_RECORD_SAMPLE:
			take(r.body, cputrace.RanUser)
		}
	}
	atomic.StoreUint64(&control.Data_tail, tail)
	return lost
}

// copyRing copies from a place in a ring, which may go on at its begin.
func copyRing(to, ring []byte, at uint64) {
	n := copy(to, ring[at%uint64(len(ring)):])
	copy(to[n:], ring)
}

// readPerf reads a sample's TID, TIME, CPU, REGS_USER and STACK_USER into s. The memory remains in b. Of a thread without
// registers of 64 bits there are none.
func readPerf(b []byte, s *stackRecord) error {
	const head, registers = 24, 8 * 17
	if len(b) < head+8 {
		return errRecord
	}
	le := binary.LittleEndian
	s.kernelEvent = kernelEvent{Kind: kindSample, Pid: le.Uint32(b), Tid: le.Uint32(b[4:]), OwnTid: le.Uint32(b[4:]), Time: le.Uint64(b[8:]), Cpu: le.Uint32(b[16:])}
	s.key, s.base, s.calls, s.memory, s.registers = 0, 0, s.calls[:0], nil, [17]uint64{}
	abi := le.Uint64(b[head:])
	if b = b[head+8:]; abi != unix.PERF_SAMPLE_REGS_ABI_64 {
		return nil
	}
	if len(b) < registers+8 {
		return errRecord
	}
	for i, at := range perfOrder {
		s.registers[at] = le.Uint64(b[8*i:])
	}
	s.base = s.registers[stackPointer]
	size := le.Uint64(b[registers:])
	if b = b[registers+8:]; size == 0 {
		return nil
	}
	if size > stackMax || uint64(len(b)) < size+8 {
		return errRecord
	}
	used := le.Uint64(b[size:])
	if used > size {
		return errRecord
	}
	s.memory = b[:used]
	return nil
}
