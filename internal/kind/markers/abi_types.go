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

// Operation of a call (enum rtl_marker_operation).
type Operation C.enum_rtl_marker_operation

const (
	OpMark     Operation = C.RTL_MARKER_MARK
	OpPush     Operation = C.RTL_MARKER_PUSH
	OpPop      Operation = C.RTL_MARKER_POP
	OpStart    Operation = C.RTL_MARKER_START
	OpStop     Operation = C.RTL_MARKER_STOP
	operations Operation = C.RTL_MARKER_OPERATIONS
)

// Way is how markers of a library come, or do not (enum rtl_marker_way).
type Way C.enum_rtl_marker_way

const (
	NotLoaded Way = C.RTL_MARKER_WAY_NOT_LOADED
	Recorded  Way = C.RTL_MARKER_WAY_RECORDED
	Chained   Way = C.RTL_MARKER_WAY_CHAINED
	Taken     Way = C.RTL_MARKER_WAY_TAKEN
	Unknown   Way = C.RTL_MARKER_WAY_UNKNOWN
	Late      Way = C.RTL_MARKER_WAY_LATE
	WayCount  Way = C.RTL_MARKER_WAY_COUNT
)

type header C.struct_rtl_header

// Call is the record of a call, and the first bytes of its text.
type Call C.struct_rtl_marker

// Coverage is the record of the libraries.
type Coverage C.struct_rtl_marker_coverage
