// Package scratch is the kind of record of scratch memory: the runtime allocates it for kernels that need
// more private memory than their queue has, frees it, and takes it back from queues that do not use it.
package scratch

import (
	_ "embed"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

//go:generate go run ../../ring/genabi

//go:embed schema.sql
var schema string

// The types of the records of an event, and of what the runtime has.
const (
	TypeEvent    = ring.Type(typeScratch)
	TypeCoverage = ring.Type(typeCoverage)
)

// Kind is the kind of scratch memory.
var Kind = &kind.Kind{
	ID:         ring.KindScratchMemory,
	Thing:      "event of scratch memory",
	Event:      "scratch operation",
	Flag:       "scratch-memory-trace",
	Usage:      "record allocations, frees and reclaims of scratch memory, too (ROCr 6.0 and later)",
	Schema:     schema,
	Tables:     []string{"rtl_scratch", "rtl_scratch_coverage"},
	Describes:  []ring.Type{TypeCoverage},
	NewDecoder: newDecoder,
	Read:       read,
	CSV:        []kind.Table{operationTable},
	Export:     export,
}

// Operation is what the runtime does.
type Operation int64

// The numbers are those of the file: rtl_scratch_operation.
const (
	Allocate Operation = iota
	Free
	Reclaim
	operations
)

// operation returns what the event's operation does; an operation has a start and an end.
func (e eventKind) operation() Operation { return Operation(e / 2) }

func (e eventKind) isEnd() bool { return e%2 == 1 }

// flagUseOnce (hsa_amd_event_scratch_alloc_flag_t): the memory is for one dispatch only.
const flagUseOnce = 1

// Span is a start and the end that belongs to it. One of them may be missing.
type Span struct {
	Operation      Operation
	TID            uint32
	Queue          uint64 // address in the target
	Dispatch       uint64 // of Allocate: index of the packet that needs the memory
	Bytes, Slots   uint64 // of Allocate with an end
	Flags          uint32
	StartNS, EndNS uint64 // 0: not known
}
