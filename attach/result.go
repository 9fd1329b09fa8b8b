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
	Without uint64   // kinds that could not be recorded, of all processes
	Early   string   // why the recording ended before its duration; "": it did not
}

func resultOf(o session.Outcome) Result {
	return Result{Path: o.Path, Code: o.Code, NoTimes: o.NoTimes, Left: o.Left, Missing: o.Missing, Without: o.Without, Early: o.Early}
}

// Outcome returns the engine's form of a result, for packages of this module.
func (r Result) Outcome() session.Outcome {
	return session.Outcome{Path: r.Path, Code: r.Code, NoTimes: r.NoTimes, Left: r.Left, Missing: r.Missing, Without: r.Without, Early: r.Early}
}

// Strict returns RecordsMissing or EndedEarly instead of OK if the trace is incomplete.
func (r Result) Strict() ExitCode { return r.Outcome().Strict() }

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
