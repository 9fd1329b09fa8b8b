// Package failure adds to errors of the lower layers what a user needs: cause, fix, the state of
// the target, and the exit code of the tool. No other package has these texts; internal/guide
// compares them with docs/guide/troubleshooting.md.
package failure

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/inject"
)

// States of the target after a failure.
const (
	Untouched = "not touched"
	Restored  = "as found"
	Gone      = "gone"
)

// Error is an error with a checked cause, a fix, and the state of the target.
type Error struct {
	What   string // "cannot trace pid 41377: permission denied"
	Cause  string
	Fix    string
	Target string
	Code   ExitCode
	Err    error
}

func (f *Error) Error() string { return f.What }

// Unwrap returns the error that f explains; nil: there is none.
func (f *Error) Unwrap() error { return f.Err }

// Explain converts an error of the lower layers to an *Error, and returns an *Error unchanged.
// verb is what could not be done to the process ("trace"), state is the target's state.
func Explain(verb string, pid int, err error, state string) *Error {
	var f *Error
	if errors.As(err, &f) {
		return f
	}
	f = &Error{What: fmt.Sprintf("cannot %s pid %d: %s", verb, pid, BareText(err)), Code: Failed, Target: state, Err: err}
	var remains *inject.RemainsError
	if errors.As(err, &remains) {
		f.Code, f.Target = Remains, remains.Error()
	}
	for _, explanation := range []func(*Error) bool{
		explainRegister, explainAccess, explainProgram, explainRuntime, explainInjection, explainPayload, explainLibrary, explainOutput,
		explainInterrupt, explainNothing,
	} {
		if explanation(f) {
			break
		}
	}
	return f
}

var pidPrefix = regexp.MustCompile(`^pid \d+(?: \([^)]*\))?(?:: | is )`)

// BareText returns the first line of an error without the pid, which is in What.
func BareText(err error) string { return pidPrefix.ReplaceAllString(FirstLine(err), "") }

// FirstLine returns the first line of an error: joined errors have several.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (f *Error) set(code ExitCode, cause, fix string) bool {
	if f.Code != Remains {
		f.Code = code
	}
	f.Cause, f.Fix = cause, fix
	return true
}

func explainInterrupt(f *Error) bool {
	if !errors.Is(f.Err, context.Canceled) {
		return false
	}
	return f.set(Failed, "a signal (or Ctrl-C) came before the recording began", "run this again")
}

// explainNothing returns an unknown cause: a guessed one would be worse.
func explainNothing(f *Error) bool {
	return f.set(f.Code, "none that this version knows", "run this again with --verbose; if it stays, please report it")
}
