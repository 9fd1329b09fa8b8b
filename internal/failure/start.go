package failure

import (
	"errors"
	"os"
	"os/exec"
)

// NotStarted explains why a program could not be started.
func NotStarted(program string, err error) *Error {
	f := &Error{
		What: "cannot start " + program + ": " + BareText(err), Cause: BareText(err),
		Fix: "see whether it runs without rtl-attach", Target: "not started", Code: Failed, Err: err,
	}
	f.know(err,
		knownError{exec.ErrNotFound, "there is no such program in the folders of PATH", "check its name, or give its path"},
		knownError{os.ErrNotExist, "there is no such file, or its interpreter is missing", "check its name and the folder"},
		knownError{os.ErrPermission, "this user may not execute it", "chmod +x, or give the program that interprets it"},
	)
	var failed *exec.Error
	if errors.As(err, &failed) {
		f.What = "cannot start " + program + ": " + failed.Err.Error()
	}
	return f
}
