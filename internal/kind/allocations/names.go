package allocations

import "fmt"

// names are what people call the operations, as in the view rtl_allocation_operation.
var names = [OperationCount]string{
	"pool allocate", "region allocate", "virtual memory create", "pool free", "region free", "virtual memory release",
}

// statuses are names of hsa_status_t that the functions of this kind return.
var statuses = map[int64]string{
	40:     "HSA_STATUS_ERROR_INVALID_MEMORY_POOL",
	0x1000: "HSA_STATUS_ERROR",
	0x1001: "HSA_STATUS_ERROR_INVALID_ARGUMENT",
	0x1003: "HSA_STATUS_ERROR_INVALID_ALLOCATION",
	0x1004: "HSA_STATUS_ERROR_INVALID_AGENT",
	0x1005: "HSA_STATUS_ERROR_INVALID_REGION",
	0x1008: "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
	0x100A: "HSA_STATUS_ERROR_RESOURCE_FREE",
	0x100B: "HSA_STATUS_ERROR_NOT_INITIALIZED",
	0x100C: "HSA_STATUS_ERROR_REFCOUNT_OVERFLOW",
}

func statusName(status int64) string {
	if name, ok := statuses[status]; ok {
		return name
	}
	return fmt.Sprintf("hsa_status_t %#x", status)
}
