//go:build ignore

// The input of `go tool cgo -godefs`: genabi writes abi.go.
package null

/*
#include "kinds/null/null_abi.h"
*/
import "C"

const typeCall = C.RTL_TYPE_NULL_CALL

type header C.struct_rtl_header

// call is the record of a call.
type call C.struct_rtl_null_call
