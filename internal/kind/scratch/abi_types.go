//go:build ignore

// The input of `go tool cgo -godefs`: genabi writes abi.go.
package scratch

/*
#include "kinds/scratch/scratch_abi.h"
*/
import "C"

const (
	typeScratch  = C.RTL_TYPE_SCRATCH
	typeCoverage = C.RTL_TYPE_SCRATCH_COVERAGE
)

// eventKind is what an event says (enum rtl_scratch_event).
type eventKind C.enum_rtl_scratch_event

const (
	allocStart   eventKind = C.RTL_SCRATCH_ALLOC_START
	allocEnd     eventKind = C.RTL_SCRATCH_ALLOC_END
	freeStart    eventKind = C.RTL_SCRATCH_FREE_START
	freeEnd      eventKind = C.RTL_SCRATCH_FREE_END
	reclaimStart eventKind = C.RTL_SCRATCH_RECLAIM_START
	reclaimEnd   eventKind = C.RTL_SCRATCH_RECLAIM_END
	eventKinds   eventKind = C.RTL_SCRATCH_EVENTS
)

type header C.struct_rtl_header

// Event is the record of the start or the end of an operation.
type Event C.struct_rtl_scratch

// Coverage is what the payload says of the runtime.
type Coverage C.struct_rtl_scratch_coverage
