// Package failure turns errors of the lower layers into what a user needs: cause, fix, the
// state of the target, and the exit code of the tool. It alone knows them; internal/guide
// compares its texts with docs/guide/troubleshooting.md.
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

// An Error is an error with what a person needs: a cause that was looked up,
// a fix, and the state in which the target is left.
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

// Explain turns an error of the lower layers into an *Error; one that is an *Error already
// stays. verb says what could not be done to the process ("trace"), state how it was left.
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

// BareText returns the first line of an error without the pid, which What names already.
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

// explainNothing: a guessed cause would be worse than none.
func explainNothing(f *Error) bool {
	return f.set(f.Code, "none that this version knows", "run this again with --verbose; if it stays, please report it")
}
