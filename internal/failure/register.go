package failure

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/register"
)

const prepareFix = "record it with rtl-attach itself, without --via: that needs no preparation"

// explainRegister explains errors of an attach by rocprofiler-register's protocol.
func explainRegister(f *Error) bool {
	var (
		tool   *register.ToolError
		status *register.StatusError
	)
	switch {
	case errors.Is(f.Err, register.ErrNoLibrary):
		f.Target = Untouched
		return f.set(Unsuitable, "librocprofiler-register.so is not loaded: it is no ROCm process, or its ROCm has not this library", prepareFix)
	case errors.Is(f.Err, register.ErrNoFunction):
		f.Target = Untouched
		return f.set(Unsuitable, "its librocprofiler-register.so is of a ROCm before 7.1, and has no function for an attach", prepareFix)
	case errors.Is(f.Err, register.ErrNotPrepared):
		f.Target = Untouched
		return f.set(Unsuitable, "it was not started with ROCP_TOOL_ATTACH=1, or its ROCm has no librocprofiler-sdk-attach.so", prepareFix)
	case errors.Is(f.Err, register.ErrNoSDK):
		f.Target = Untouched
		return f.set(Unsuitable, "it finds no librocprofiler-sdk.so, and rocprofiler-register would abort it", prepareFix)
	case errors.Is(f.Err, register.ErrRecorded):
		f.Target = Untouched
		return f.set(NotPermitted, "a session of rtl-attach is active in it", "end it first: rtl-attach detach PID")
	case errors.As(f.Err, &tool):
		f.Target = Untouched
		return f.set(Usage, "", "--tool-library with the path of a tool that the process sees")
	case errors.As(f.Err, &status):
		return f.set(Failed, fmt.Sprintf("%s returned %v: %s", status.Call, status.Status, status.Status.Meaning()), "its own log (standard error of the process) may say more")
	}
	return false
}
