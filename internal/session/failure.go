package session

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/inject"
)

// States of the target at the end of a failure.
const (
	untouched = "not touched"
	restored  = "as found"
	gone      = "gone"
)

// A Failure is an error with what a person needs: a cause that was looked up,
// a fix, and the state in which the target is left.
type Failure struct {
	What   string // "cannot trace pid 41377: permission denied"
	Cause  string
	Fix    string
	Target string
	Code   ExitCode
	Err    error
}

func (f *Failure) Error() string { return f.What }

func (f *Failure) Unwrap() error { return f.Err }

// explain turns an error of the lower layers into a Failure. verb is what could
// not be done to the process, state how it was left.
func explain(verb string, pid int, err error, state string) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	f = &Failure{What: fmt.Sprintf("cannot %s pid %d: %s", verb, pid, bare(err)), Code: Failed, Target: state, Err: err}
	var remains *inject.RemainsError
	if errors.As(err, &remains) {
		f.Code, f.Target = Remains, remains.Error()
	}
	for _, explanation := range []func(*Failure) bool{
		explainAccess, explainProgram, explainRuntime, explainInjection, explainPayload, explainLibrary, explainOutput,
		explainInterrupt, explainNothing,
	} {
		if explanation(f) {
			break
		}
	}
	return f
}

var pidPrefix = regexp.MustCompile(`^pid \d+(?: \([^)]*\))?(?:: | is )`)

// bare is an error's first line without the pid, which is said already.
func bare(err error) string { return pidPrefix.ReplaceAllString(firstLine(err), "") }

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (f *Failure) set(code ExitCode, cause, fix string) bool {
	if f.Code != Remains {
		f.Code = code
	}
	f.Cause, f.Fix = cause, fix
	return true
}

// A libraryError is about the payload's file: nothing was touched yet.
type libraryError struct{ err error }

func (e *libraryError) Error() string { return e.err.Error() }

func (e *libraryError) Unwrap() error { return e.err }

// NoPayload explains why there is no payload to be loaded into pid.
func NoPayload(pid int, err error) *Failure {
	return explain("trace", pid, &libraryError{err}, untouched)
}
