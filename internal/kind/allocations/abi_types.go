//go:build ignore

// The input of `go tool cgo -godefs`: genabi writes abi.go.
package allocations

/*
#include "kinds/allocation/allocation_abi.h"
*/
import "C"

const typeAllocation = C.RTL_TYPE_ALLOCATION

// Operation is what a call does (enum rtl_allocation_operation).
type Operation C.enum_rtl_allocation_operation

const (
	Pool           Operation = C.RTL_ALLOCATION_POOL
	Region         Operation = C.RTL_ALLOCATION_REGION
	Virtual        Operation = C.RTL_ALLOCATION_VIRTUAL
	PoolFree       Operation = C.RTL_ALLOCATION_POOL_FREE
	RegionFree     Operation = C.RTL_ALLOCATION_REGION_FREE
	VirtualFree    Operation = C.RTL_ALLOCATION_VIRTUAL_FREE
	OperationCount Operation = C.RTL_ALLOCATION_COUNT
)

// FlagAgentKnown: Agent says whose memory it is.
const FlagAgentKnown = C.RTL_ALLOCATION_AGENT_KNOWN

type header C.struct_rtl_header

// Allocation is the record of an allocation or a release.
type Allocation C.struct_rtl_allocation
