package register

import (
	"errors"
	"fmt"
)

// Reasons that prevent an attach by rocprofiler-register's protocol. The target is not touched.
var (
	ErrNoLibrary   = errors.New("librocprofiler-register.so is not loaded")
	ErrNoFunction  = errors.New("its librocprofiler-register.so has no rocprofiler_register_attach")
	ErrNotPrepared = errors.New("it was not prepared for an attach by rocprofiler-register when it started")
	ErrNoSDK       = errors.New("it finds no librocprofiler-sdk.so, and rocprofiler-register would abort it")
	ErrRecorded    = errors.New("a session of rtl-attach is active in it")
)

// ToolError is a tool library that cannot be used.
type ToolError struct{ Path, Why string }

func (e *ToolError) Error() string { return fmt.Sprintf("tool library %q: %s", e.Path, e.Why) }
