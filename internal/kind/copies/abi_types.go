//go:build ignore

// The input of `go tool cgo -godefs`: genabi writes abi.go.
package copies

/*
#include "kinds/copy/copy_abi.h"
*/
import "C"

const typeCopy = C.RTL_TYPE_COPY

// Direction of a copy (enum rtl_direction).
type Direction C.enum_rtl_direction

const (
	HostToHost     Direction = C.RTL_HOST_TO_HOST
	HostToDevice   Direction = C.RTL_HOST_TO_DEVICE
	DeviceToHost   Direction = C.RTL_DEVICE_TO_HOST
	DeviceToDevice Direction = C.RTL_DEVICE_TO_DEVICE
	DirectionCount Direction = C.RTL_DIRECTION_COUNT
)

type header C.struct_rtl_header

// Copy is a copy's record.
type Copy C.struct_rtl_copy
