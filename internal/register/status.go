package register

import "fmt"

// Status is a result of rocprofiler-register (rocprofiler_register_error_code_t).
type Status int32

// Success is the status of a call that has done what it was made for.
const Success Status = 0

// statuses has the name and the meaning of each status, as rocprofiler-register publishes them.
var statuses = []struct{ name, meaning string }{
	{"ROCP_REG_SUCCESS", "success"},
	{"ROCP_REG_NO_TOOLS", "it has found no tool to activate"},
	{"ROCP_REG_DEADLOCK", "another thread is registering a runtime"},
	{"ROCP_REG_BAD_API_TABLE_LENGTH", "a runtime has registered an invalid number of tables"},
	{"ROCP_REG_UNSUPPORTED_API", "it does not support an API"},
	{"ROCP_REG_INVALID_API_ADDRESS", "a runtime has registered an invalid address"},
	{"ROCP_REG_ROCPROFILER_ERROR", "rocprofiler-sdk has returned an error"},
	{"ROCP_REG_EXCESS_API_INSTANCES", "a runtime has registered too often"},
	{"ROCP_REG_INVALID_ARGUMENT", "an argument is invalid: each attach to a process needs the same tool library as its first one"},
	{"ROCP_REG_ATTACHMENT_NOT_AVAILABLE", "the process was not prepared for an attach when it started"},
}

// String returns the status's name in rocprofiler-register's header.
func (s Status) String() string {
	if s < 0 || int(s) >= len(statuses) {
		return fmt.Sprintf("status %d", int32(s))
	}
	return statuses[s].name
}

// Meaning describes the status.
func (s Status) Meaning() string {
	if s < 0 || int(s) >= len(statuses) {
		return "this version of rtl-attach does not know it"
	}
	return statuses[s].meaning
}

// StatusError is a status other than Success.
type StatusError struct {
	Call   string // the function
	Status Status
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s returned %v", e.Call, e.Status) }
