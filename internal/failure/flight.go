package failure

import "github.com/rtl-attach/rtl-attach/internal/humanize"

// FlightOfOne explains that a flight recorder keeps the records of one process.
func FlightOfOne(processes int) *Error {
	return &Error{
		What:  "--keep-last records one process",
		Cause: humanize.Things(int64(processes), "process") + " are selected",
		Fix:   "one recording for each: rtl-attach -p PID --keep-last …", Target: Untouched, Code: Usage,
	}
}

// NoControl explains why a control channel cannot be opened.
func NoControl(spec string, err error) *Error {
	return &Error{
		What: "cannot open --control " + spec, Cause: "opening it failed: " + BareText(err), Target: Untouched, Code: Failed, Err: err,
		Fix: "remove what a killed recorder has left there, or name another file, that this user may make",
	}
}
