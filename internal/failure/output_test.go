package failure

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOutputFailures: each has all that an error has, and the worse code.
func TestOutputFailures(t *testing.T) {
	for _, err := range []error{unix.ENOSPC, unix.EPIPE, errors.New("other")} {
		err = fmt.Errorf("write: %w", err)
		for _, f := range []*Error{
			OutputFailed("it", OK, err), OutputFailed("it", Failed, err), ResultFailed(OK, err),
		} {
			if f.What == "" || f.Cause == "" || f.Fix == "" || f.Target == "" || f.Code != Failed {
				t.Errorf("%+v", f)
			}
		}
		if f := OutputFailed("it", NotPermitted, err); f.Code != NotPermitted {
			t.Errorf("%+v", f)
		}
	}
}
