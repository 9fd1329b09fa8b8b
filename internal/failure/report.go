package failure

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// knownError has a cause and a fix that replace its text.
type knownError struct {
	err        error
	cause, fix string
}

// know sets cause and fix to those of the first known error that err matches.
func (f *Error) know(err error, known ...knownError) {
	for _, k := range known {
		if errors.Is(err, k.err) {
			f.Cause, f.Fix = k.cause, k.fix
			return
		}
	}
}

// unreadable are the errors of every command that reads a trace.
func unreadable(trace string) []knownError {
	return []knownError{
		{tracedb.ErrNewerFormat, trace + " was written by a newer rtl-attach", "read it with that version"},
		{tracedb.ErrNotTrace, trace + " is not a trace", "give a file that rtl-attach has recorded"},
		{tracedb.ErrBusy, "another program keeps it locked: SQLite's shell in a transaction, perhaps", "end that program, or wait for it"},
		{tracedb.ErrJournal, "what its recorder writes beside it, or has left there, cannot be used from here", "wait for the recorder's end; after its death copy the trace and its -journal to a local disk"},
		{tracedb.ErrCutOff, "its recorder was killed, and only who may write the trace and its folder can take back what was half written", "copy it and its -journal to a folder of yours, or run this as its owner"},
		{os.ErrPermission, "this user may not read the trace", "ask its owner, or copy it as root, with its -journal if there is one"},
		{os.ErrNotExist, "there is no such file", "check the name and the folder"},
		nobodyReads,
	}
}

// ReportFailed explains why a trace could not be reported on.
func ReportFailed(trace string, err error) *Error {
	f := &Error{
		What: fmt.Sprintf("cannot report on %s: %s", trace, BareText(err)), Cause: BareText(err),
		Fix: "try a copy of the file, with its -journal if there is one, on another filesystem", Target: "none: a report reads the trace only", Code: Failed, Err: err,
	}
	f.know(err, append([]knownError{
		{steps.ErrNoSteps, "no such steps were found in this trace", "rtl-attach report " + trace + " lists the steps that were found"},
		{report.ErrQuery, "SQLite says: " + strings.TrimPrefix(BareText(err), report.ErrQuery.Error()+": "), "one SELECT; SELECT sql FROM sqlite_master lists the tables"},
		{traceread.ErrImpossible, "the file is damaged or cut short, or holds what no recorder writes", "copy it again, with its -journal if there is one, or record again"},
		{traceread.ErrNoRoom, "the filesystem is full", "SQLite sorts in SQLITE_TMPDIR or /var/tmp: make room there"},
		noRoom,
	}, unreadable(trace)...)...)
	return f
}
