package stuck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Layouts of the HSA ABI (hsa.h, amd_hsa_queue.h, amd_hsa_signal.h): the hardware reads them, so every
// version of the runtime has the same. All that is read is hostile input.
const (
	queueBytes  = 256
	signalBytes = 64
	packetBytes = 64
	alignment   = 64
	addressMax  = 1 << 47
	slotsMax    = 1 << 24
)

// Kinds of signal (amd_signal_kind_t).
const (
	kindUser           = 1
	kindDoorbell       = -1
	kindLegacyDoorbell = -2
)

// Types of packet (hsa_packet_type_t).
const (
	typeVendor     = 0
	typeInvalid    = 1
	typeDispatch   = 2
	typeBarrierAND = 3
	typeAgent      = 4
	typeBarrierOR  = 5
)

var errNotQueue = errors.New("no HSA queue")

// aligned reports whether a may be the address of a queue, signal or ring.
func aligned(a uint64) bool { return a != 0 && a%alignment == 0 && a < addressMax }

// rawSignal is an amd_signal_t.
type rawSignal struct {
	kind    int64
	value   int64 // of a doorbell: the address of its register
	eventID uint32
	queue   uint64 // of a doorbell: its amd_queue_t
}

func parseSignal(b *[signalBytes]byte) rawSignal {
	le := binary.LittleEndian
	return rawSignal{
		kind: int64(le.Uint64(b[0:])), value: int64(le.Uint64(b[8:])), eventID: le.Uint32(b[24:]), queue: le.Uint64(b[48:]),
	}
}

func (s *rawSignal) isDoorbell() bool { return s.kind == kindDoorbell || s.kind == kindLegacyDoorbell }

// rawQueue is an amd_queue_t.
type rawQueue struct {
	at, ring, doorbell, id uint64
	slots                  uint32
	read, write            uint64
	claims                 *claims // rtl-attach records it: write is the program's index (seenByProgram),
	passed                 uint64  // and this the queue's own
}

// parseQueue parses the amd_queue_t at an address. It fails if the queue cannot be one of the hardware's.
func parseQueue(b *[queueBytes]byte, at uint64) (*rawQueue, error) {
	le := binary.LittleEndian
	q := &rawQueue{
		at: at, ring: le.Uint64(b[8:]), doorbell: le.Uint64(b[16:]), slots: le.Uint32(b[24:]), id: le.Uint64(b[32:]),
		write: le.Uint64(b[56:]), read: le.Uint64(b[128:]),
	}
	const typesMax = 2 // hsa_queue_type32_t: multi, single, cooperative
	if le.Uint32(b[0:]) > typesMax || !aligned(q.ring) || !aligned(q.doorbell) || q.slots == 0 || q.slots > slotsMax || q.slots&(q.slots-1) != 0 {
		return nil, fmt.Errorf("queue at %#x: %w", at, errNotQueue)
	}
	return q, nil
}

// slot returns the address of the packet with an index.
func (q *rawQueue) slot(index uint64) uint64 {
	return q.ring + (index&uint64(q.slots-1))*packetBytes
}

// rawPacket is an AQL packet. Which fields are valid depends on its type.
type rawPacket struct {
	kind         int // type in the header
	barrier      bool
	dimensions   int
	workgroup    [3]uint16
	grid         [3]uint32
	kernelObject uint64
	dependencies [5]uint64 // handles of signals
	completion   uint64    // handle of a signal; 0: none
	vendorFormat uint8
	condition    uint32 // of a barrier-value packet, as value and mask
	value, mask  int64
}

func parsePacket(b *[packetBytes]byte) rawPacket {
	le := binary.LittleEndian
	header, setup := le.Uint16(b[0:]), le.Uint16(b[2:])
	p := rawPacket{
		kind: int(header & 0xff), barrier: header&0x100 != 0, dimensions: int(setup & 3), vendorFormat: b[2],
		kernelObject: le.Uint64(b[32:]), completion: le.Uint64(b[56:]),
	}
	p.value, p.mask, p.condition = int64(le.Uint64(b[16:])), int64(le.Uint64(b[24:])), le.Uint32(b[32:])
	for i := range p.grid {
		p.workgroup[i], p.grid[i] = le.Uint16(b[4+2*i:]), le.Uint32(b[12+4*i:])
	}
	for i := range p.dependencies {
		p.dependencies[i] = le.Uint64(b[8+8*i:])
	}
	return p
}

// barrierValue is the vendor's packet that compares a signal's value (hsa_amd_barrier_value_packet_t).
const barrierValue = 2

// met reports whether a value fulfils a barrier-value packet's condition (hsa_signal_condition_t).
func (p *rawPacket) met(value int64) bool {
	switch value &= p.mask; p.condition {
	case 0:
		return value == p.value
	case 1:
		return value != p.value
	case 2:
		return value < p.value
	}
	return value >= p.value
}

// conditionText returns what a barrier-value packet waits for.
func (p *rawPacket) conditionText() string {
	text := fmt.Sprintf("%s %d", []string{"=", "≠", "<", "≥"}[p.condition&3], p.value)
	if p.mask != -1 {
		text = fmt.Sprintf("& %#x %s", uint64(p.mask), text)
	}
	return text
}

// read fills b from address at.
func read(mem io.ReaderAt, at uint64, b []byte) error {
	if at >= addressMax {
		return fmt.Errorf("address %#x: %w", at, errNotQueue)
	}
	_, err := mem.ReadAt(b, int64(at))
	return err
}

func readSignal(mem io.ReaderAt, at uint64) (s rawSignal, err error) {
	var b [signalBytes]byte
	if !aligned(at) {
		return s, fmt.Errorf("signal at %#x: %w", at, errNotQueue)
	}
	if err := read(mem, at, b[:]); err != nil {
		return s, err
	}
	return parseSignal(&b), nil
}

func readQueue(mem io.ReaderAt, at uint64) (*rawQueue, error) {
	var b [queueBytes]byte
	if !aligned(at) {
		return nil, fmt.Errorf("queue at %#x: %w", at, errNotQueue)
	}
	if err := read(mem, at, b[:]); err != nil {
		return nil, err
	}
	return parseQueue(&b, at)
}

func readPacket(mem io.ReaderAt, q *rawQueue, index uint64) (p rawPacket, err error) {
	var b [packetBytes]byte
	if err := read(mem, q.slot(index), b[:]); err != nil {
		return p, err
	}
	return parsePacket(&b), nil
}
