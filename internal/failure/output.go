package failure

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// Errors of standard output.
var (
	noRoom      = knownError{unix.ENOSPC, "there is no room where the output goes", "make room there, or let the output go elsewhere"}
	nobodyReads = knownError{unix.EPIPE, "nobody reads the output any more", "keep the reader open to the end"}
)

// OutputFailed explains why a result could not be written. It keeps code unless that is OK.
func OutputFailed(what string, code ExitCode, err error) *Error {
	return unwritten("cannot write "+what, "let the output go elsewhere", Restored, code, err)
}

func unwritten(what, fix, target string, code ExitCode, err error) *Error {
	f := &Error{
		What: what + ": " + BareText(err), Cause: BareText(err), Fix: fix, Target: target, Code: cmp.Or(code, Failed), Err: err,
	}
	f.know(err, noRoom, nobodyReads)
	return f
}

// ResultFailed explains why the summary of an export could not be written.
func ResultFailed(code ExitCode, err error) *Error {
	f := unwritten("cannot say what was exported", "", exportTarget, code, err)
	f.Fix = "none needed: the files are complete; -q says nothing of them" // whatever the cause
	return f
}
