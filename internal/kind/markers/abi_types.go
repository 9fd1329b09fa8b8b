//go:build ignore

// The input of `go tool cgo -godefs`: genabi writes abi.go.
package markers

/*
#include "kinds/marker/marker_abi.h"
*/
import "C"

const (
	typeMarker   = C.RTL_TYPE_MARKER
	typeCoverage = C.RTL_TYPE_MARKER_COVERAGE
	textMax      = C.RTL_MARKER_TEXT_MAX
)

// operation of a call (enum rtl_marker_operation).
type operation C.enum_rtl_marker_operation

const (
	opMark     operation = C.RTL_MARKER_MARK
	opPush     operation = C.RTL_MARKER_PUSH
	opPop      operation = C.RTL_MARKER_POP
	opStart    operation = C.RTL_MARKER_START
	opStop     operation = C.RTL_MARKER_STOP
	operations operation = C.RTL_MARKER_OPERATIONS
)

// Way is how markers of a library come, or do not (enum rtl_marker_way).
type Way C.enum_rtl_marker_way

const (
	NotLoaded Way = C.RTL_MARKER_WAY_NOT_LOADED
	Recorded  Way = C.RTL_MARKER_WAY_RECORDED
	Chained   Way = C.RTL_MARKER_WAY_CHAINED
	Taken     Way = C.RTL_MARKER_WAY_TAKEN
	Unknown   Way = C.RTL_MARKER_WAY_UNKNOWN
	WayCount  Way = C.RTL_MARKER_WAY_COUNT
)

type header C.struct_rtl_header

// call is the record of a call, and the first bytes of its text.
type call C.struct_rtl_marker

// coverage is the record of the libraries.
type coverage C.struct_rtl_marker_coverage
