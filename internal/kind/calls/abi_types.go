//go:build ignore

// The input of `go tool cgo -godefs`: genabi writes abi.go.
package calls

/*
#include "kinds/calls/calls_abi.h"

enum {
	CALL = RTL_CALL_TYPE(0) - RTL_KIND_TYPES,
	COVERAGE = RTL_CALL_COVERAGE_TYPE(0) - RTL_KIND_TYPES,
};
*/
import "C"

// The record types, counted from the first one of each kind.
const (
	typeCall     = C.CALL
	typeCoverage = C.COVERAGE
)

const (
	registers  = C.RTL_CALL_REGISTERS
	stackWords = C.RTL_CALL_STACK_WORDS
)

// HasOut is the flag of a call whose out-argument has what the function has written.
const HasOut = C.RTL_CALL_HAS_OUT

// Way is how the functions of a kind are intercepted (enum rtl_call_way).
type Way C.enum_rtl_call_way

const (
	WayNone  Way = C.RTL_CALL_WAY_NONE
	WayTable Way = C.RTL_CALL_WAY_TABLE
	WayGOT   Way = C.RTL_CALL_WAY_GOT
	WayLate  Way = C.RTL_CALL_WAY_LATE
	WayCount Way = C.RTL_CALL_WAY_COUNT
)

type header C.struct_rtl_header

// Call is the record of a call that has returned.
type Call C.struct_rtl_call

// Coverage is the record of what of a kind is intercepted.
type Coverage C.struct_rtl_call_coverage
