package calls

import (
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// hasStatus returns 1 if a function's result is an error code, of which 0 is success.
func hasStatus(f *function.Function) int64 {
	switch f.Result.Text {
	case "hipError_t", "hsa_status_t", "ncclResult_t":
		return 1
	}
	return 0
}

// result returns what the trace has of rax, of which a smaller result fills only the lower bytes.
func result(f *function.Function, rax uint64) int64 {
	switch t := f.Result; {
	case t.Class == function.Void, t.Size == 0:
		return tracedb.Null
	case t.Size == 4 && t.Class == function.Signed:
		return int64(int32(rax))
	case t.Size < 8:
		return int64(rax & (1<<(8*t.Size) - 1))
	}
	return int64(rax)
}
