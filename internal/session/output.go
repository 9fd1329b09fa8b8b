package session

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// What can be wrong with standard output.
var (
	noRoom      = knownError{unix.ENOSPC, "there is no room where the output goes", "make room there, or let the output go elsewhere"}
	nobodyReads = knownError{unix.EPIPE, "nobody reads the output any more", "keep the reader open to the end"}
)

// OutputFailed explains why what was found out could not be written. A code that says
// more than that stays.
func OutputFailed(what string, code ExitCode, err error) *Failure {
	return unwritten("cannot write "+what, "let the output go elsewhere", restored, code, err)
}

func unwritten(what, fix, target string, code ExitCode, err error) *Failure {
	f := &Failure{
		What: what + ": " + bare(err), Cause: bare(err), Fix: fix, Target: target, Code: cmp.Or(code, Failed), Err: err,
	}
	f.know(err, noRoom, nobodyReads)
	return f
}

// ResultFailed explains why it could not be said what was exported.
func ResultFailed(code ExitCode, err error) *Failure {
	f := unwritten("cannot say what was exported", "", exportTarget, code, err)
	f.Fix = "none needed: the files are complete; -q says nothing of them" // whatever the cause
	return f
}
