package session

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// exportTarget: no process is looked at for an export.
const exportTarget = "none: an export reads the trace only"

// ExportFailed explains why a trace could not be exported.
func ExportFailed(trace, output string, err error) *Failure {
	f := &Failure{
		What: fmt.Sprintf("cannot export %s: %s", trace, bare(err)), Cause: bare(err),
		Fix: "rtl-attach report " + trace + " says what the trace holds", Target: exportTarget, Code: Failed, Err: err,
	}
	for _, known := range []struct {
		err        error
		cause, fix string
	}{
		{export.ErrInterrupted, "it was interrupted; the partial file is removed", "run it again"},
		{export.ErrImpossible, "the file holds what no recorder writes", "export a trace that rtl-attach has recorded"},
		{tracedb.ErrExists, output + " is there already, and is never overwritten", "-o with another name"},
		{tracedb.ErrUnwritable, "no file can be made at " + output, "-o with a path in a folder that you may write"},
		{tracedb.ErrNoSpace, "the filesystem of " + output + " is full", "-o on another filesystem"},
		{tracedb.ErrNotTrace, trace + " is no trace, or one of a newer rtl-attach", "give a file that rtl-attach has recorded"},
		{tracedb.ErrBusy, "a recorder is still writing it", "wait for its end, or rtl-attach detach PID"},
		{export.ErrNoRoom, "the filesystem is full", "-o on another filesystem; sorting takes room in SQLITE_TMPDIR or /var/tmp"},
		{unix.ENOSPC, "the filesystem is full", "-o on another filesystem; sorting takes room in SQLITE_TMPDIR or /var/tmp"},
		{os.ErrPermission, "this user may not read the trace", "ask its owner, or copy it as root"},
		{os.ErrNotExist, "there is no such file", "look at the name"},
		{unix.EPIPE, "nobody reads the output any more", "keep the reader open to the end"},
	} {
		if errors.Is(err, known.err) {
			f.Cause, f.Fix = known.cause, known.fix
			break
		}
	}
	return f
}
