package attach

import (
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

// Result is the result of a recording.
type Result struct {
	Path    string   // of the trace; "": there is none
	Code    ExitCode // OK: there are records, and the detach is confirmed
	NoTimes uint64   // dispatches without times
	Left    uint64   // dispatches that a filter left out
	Missing uint64   // lost records
	Early   string   // why the recording ended before its duration; "": it did not
}

func resultOf(o session.Outcome) Result { return Result(o) }

// Strict returns RecordsMissing or EndedEarly instead of OK if the trace is incomplete.
func (r Result) Strict() ExitCode { return session.Outcome(r).Strict() }

// Summary is the summary of a trace. Its fields, and its JSON form, are described in docs/json.md.
type Summary = report.Summary

// errNoTrace is the error for a recording without a trace.
var errNoTrace = errors.New("the recording has left no trace")

// Summary reads the trace, and returns its summary with the kernels that took most time, at most so many.
func (r Result) Summary(kernels int) (*Summary, error) {
	if r.Path == "" {
		return nil, errNoTrace
	}
	return report.Summarize(r.Path, kernels)
}
