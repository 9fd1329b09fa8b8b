// Package simlog reads the log of the simulated GPU: what really ran, where and
// when. It is the oracle that a recorded trace is compared with.
//
// The log's format is testdata/softgpu/truth.h.
package simlog

import "fmt"

// Kind says what a record is about.
type Kind uint8

const (
	Kernel    Kind = 1 // a kernel dispatch packet, also an extended one
	Copy      Kind = 2 // an SDMA command with copies
	Fill      Kind = 3 // an SDMA command with constant fills only
	Barrier   Kind = 4 // a barrier-and or barrier-or packet
	Vendor    Kind = 5 // a vendor-specific packet
	name      Kind = 6 // a piece of a kernel's name; the reader consumes it
	Violation Kind = 7 // a violation of the queue protocol
)

func (k Kind) String() string {
	switch k {
	case Kernel:
		return "kernel"
	case Copy:
		return "copy"
	case Fill:
		return "fill"
	case Barrier:
		return "barrier"
	case Vendor:
		return "vendor"
	case Violation:
		return "violation"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Flags of a record that is not a violation.
type Flags uint16

const (
	Profiled  Flags = 1 // start and end were written for the application to read
	Internal  Flags = 2 // a blit kernel of ROCr itself, on a queue that no API call sees
	Abandoned Flags = 4 // the queue was destroyed before the kernel ended
	Extended  Flags = 8 // the vendor's extended kernel dispatch
)

// Code is a violation's kind.
type Code uint16

const (
	Reexecuted    Code = 1 // the slot's packet has the unique id it had a lap ago
	IndexBackward Code = 2 // the write index moved back
	IndexWild     Code = 3 // the write index is far beyond what producers may claim
	ReadMoved     Code = 4 // the read index changed, and not by the GPU
	Changed       Code = 5 // a packet changed after the GPU had fetched it
	Overclaim     Code = 6 // a notice: producers claimed slots before the ring had room, as they may
	BadPacket     Code = 7 // an unknown packet type
	Locked        Code = 8 // a locked instruction wrote into a ring whose memory takes none
	Writer        Code = 9 // a notice: an instruction that wrote into such a ring
)

func (c Code) String() string {
	switch c {
	case Reexecuted:
		return "stale packet executed again"
	case IndexBackward:
		return "write index moved back"
	case IndexWild:
		return "write index beyond all claims"
	case ReadMoved:
		return "read index written by another"
	case Changed:
		return "packet changed after it was fetched"
	case Overclaim:
		return "claim beyond the ring (allowed)"
	case BadPacket:
		return "unknown packet type"
	case Locked:
		return "locked instruction on a ring in device memory"
	case Writer:
		return "instruction that writes into a ring in device memory (allowed)"
	}
	return fmt.Sprintf("violation %d", uint16(c))
}

// IsNotice reports whether the code is of something that is allowed.
func (c Code) IsNotice() bool { return c == Overclaim || c == Writer }

// Record is one thing that happened on a GPU. Times are CLOCK_BOOTTIME.
type Record struct {
	Kind     Kind
	Flags    Flags
	Code     Code   // Violation only
	Node     int    // GPU ordinal
	PID      int    // in the target's own pid namespace
	Queue    uint64 // address of the hsa_queue_t; 0 for SDMA queues
	QueueID  uint64 // hsa_queue_t.id
	Engine   uint32 // the driver's queue id; reused
	Packet   uint64 // packet id within the queue
	UniqueID uint64 // the workload's own id; 0: none
	StartNS  uint64
	EndNS    uint64
	Signal   uint64 // completion signal's handle in the packet as executed; 0: none

	Object uint64 // Kernel: kernel object
	Grid   [3]uint32
	Name   string // Kernel: mangled, without ".kd"; "": not from a code object
	Bytes  uint64 // Copy, Fill
	Value  [2]uint64
}

func (r *Record) String() string {
	if r.Kind == Violation {
		return fmt.Sprintf("%v at %d: gpu %d queue %#x id %d packet %d: %#x, %#x",
			r.Code, r.StartNS, r.Node, r.Queue, r.QueueID, r.Packet, r.Value[0], r.Value[1])
	}
	return fmt.Sprintf("%v %s gpu %d queue %#x id %d packet %d uid %#x signal %#x %d..%d",
		r.Kind, r.Name, r.Node, r.Queue, r.QueueID, r.Packet, r.UniqueID, r.Signal, r.StartNS, r.EndNS)
}

// Violations returns the faults among records; notices are none.
func Violations(records []*Record) []*Record {
	var v []*Record
	for _, r := range records {
		if r.Kind == Violation && !r.Code.IsNotice() {
			v = append(v, r)
		}
	}
	return v
}
