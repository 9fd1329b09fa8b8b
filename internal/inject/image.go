package inject

import (
	"encoding/binary"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// The RW mapping:
//
//	0        struct rtl_boot
//	4096     stack of the raw thread, growing down from stackTop
//	stackTop its dynamic thread vector
//	...      static TLS blocks, up to the thread pointer
//	tp       struct pthread
const (
	pageBytes    = 4096
	codeBytes    = pageBytes // the RX mapping below it
	stackTop     = pageBytes + 128<<10
	stackStart   = stackTop - 16 // where the raw thread's rsp begins
	dtvSlots     = 1022
	dtvAt        = stackTop
	dtvBytes     = (dtvSlots + 2) * 16
	tlsAt        = dtvAt + dtvBytes
	staticTLSMax = 1 << 20
)

// place holds the addresses of one injection in the target.
type place struct {
	code target.Addr // RX mapping
	data target.Addr // RW mapping, right above
	size uint64      // of the RW mapping
	tp   target.Addr // thread pointer of the raw thread
}

// newPlace computes the layout from base, for the given static TLS blocks.
func newPlace(base target.Addr, l *libc, blocks []threadBlock) place {
	below, align := uint64(0), uint64(64)
	for _, b := range blocks {
		below, align = max(below, b.offset), max(align, b.align)
	}
	tp := (tlsAt + below + align - 1) &^ (align - 1)
	p := place{code: base, data: base + codeBytes}
	p.tp = p.data + target.Addr(tp)
	p.size = (tp + l.pthreadSize + pageBytes - 1) &^ (pageBytes - 1)
	return p
}

func (p place) bytes() uint64    { return codeBytes + p.size }
func (p place) end() target.Addr { return p.data + target.Addr(p.size) }

// header is the beginning of a thread's struct pthread, tcbhead_t. It is the same in
// every glibc for x86-64 (sysdeps/x86_64/nptl/tls.h).
type header [8]uint64

const (
	headTCB = iota
	headDTV
	headSelf
	headMultiple // multiple_threads, and gscope_flag above it
	headSysinfo
	headStackGuard
	headPointerGuard
)

// valid reports whether fs points to a struct pthread: some runtimes change fs.
func (h *header) valid(fs uint64) bool { return h[headTCB] == fs && h[headSelf] == fs }

// rseqFailed is RSEQ_CPU_ID_REGISTRATION_FAILED: sched_getcpu() then asks the kernel. 0
// would mean CPU 0.
const rseqFailed = uint32(0xfffffffe)

// threadImage returns the contents of the RW mapping from the dynamic thread vector on:
// the state of a thread that libc did not start but that can call malloc and
// pthread_create. like is the header of a thread of the target, generation the
// generation of that thread's dtv.
func threadImage(p place, l *libc, blocks []threadBlock, like *header, generation uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, p.size-dtvAt)
	tp := uint64(p.tp-p.data) - dtvAt

	// dtv[-1] is the number of slots, dtv[0] the generation, dtv[id] the
	// block and what to free with it. -1: not allocated yet.
	le.PutUint64(b, dtvSlots)
	le.PutUint64(b[16:], generation)
	for id := range uint64(dtvSlots) {
		le.PutUint64(b[32+16*id:], ^uint64(0))
	}
	for _, block := range blocks {
		le.PutUint64(b[16+16*block.modID:], uint64(p.tp)-block.offset)
		copy(b[tp-block.offset:], block.image)
	}

	for i, v := range (header{
		headTCB:          uint64(p.tp),
		headDTV:          uint64(p.data) + dtvAt + 16,
		headSelf:         uint64(p.tp),
		headMultiple:     like[headMultiple] & 0xffffffff,
		headSysinfo:      like[headSysinfo],
		headStackGuard:   like[headStackGuard],
		headPointerGuard: like[headPointerGuard],
	}) {
		le.PutUint64(b[tp+8*uint64(i):], v)
	}
	if cpuID := int64(tp) + l.rseqOffset + 4; l.rseqKnown && cpuID > 0 && cpuID <= int64(len(b))-4 {
		le.PutUint32(b[cpuID:], rseqFailed)
	}
	return b
}
