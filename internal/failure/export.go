package failure

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// exportTarget is the state of the target for an export, which reads no process.
const exportTarget = "none: an export reads the trace only"

// ExportFailed explains why a trace could not be exported.
func ExportFailed(trace, output string, err error) *Error {
	f := &Error{
		What: fmt.Sprintf("cannot export %s: %s", trace, BareText(err)), Cause: BareText(err),
		Fix: "rtl-attach report " + trace + " says what the trace holds", Target: exportTarget, Code: Failed, Err: err,
	}
	f.know(err, append([]knownError{
		{steps.ErrNoSteps, "no such steps were found in this trace", "rtl-attach report " + trace + " lists the steps that were found"},
		{export.ErrNoSession, "no process with this pid was recorded in it", "rtl-attach report " + trace + " lists them"},
		{traceread.ErrInterrupted, "it was interrupted; no file of it is left", "run it again"},
		{traceread.ErrImpossible, "the file holds what no recorder writes", "export a trace that rtl-attach has recorded"},
		{tracedb.ErrExists, output + " is there already", "--force replaces it; or -o with another name"},
		{tracedb.ErrNotReplaceable, output + " is no regular file", "-o with another name"},
		{tracedb.ErrInUse, output + " has a journal: a recorder writes it, or was killed while it did", "-o with another name"},
		{tracedb.ErrUnwritable, "no file can be made at " + output, "-o with a path in a folder that you may write"},
		{tracedb.ErrNoSpace, "the filesystem of " + output + " is full", "-o on another filesystem"},
		{traceread.ErrNoRoom, "the filesystem is full", "-o on another filesystem; sorting takes room in SQLITE_TMPDIR or /var/tmp"},
		{unix.ENOSPC, "the filesystem is full", "-o on another filesystem; sorting takes room in SQLITE_TMPDIR or /var/tmp"},
	}, unreadable(trace)...)...)
	return f
}
