package failure

import (
	"errors"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// SizeReached returns the text for a trace that has reached its largest size.
const SizeReached = "the trace has reached its largest size"

// ErrFull means that a trace to extend already has its largest size.
var ErrFull = errors.New(SizeReached)

func explainOutput(f *Error) bool {
	cause, fix := BareText(f.Err), ""
	switch {
	case errors.Is(f.Err, tracedb.ErrExists):
		cause, fix = "the file is there already", "choose another --output, replace the file with --force, or extend it with --append"
	case errors.Is(f.Err, tracedb.ErrNotReplaceable):
		fix = "choose another --output"
	case errors.Is(f.Err, tracedb.ErrInUse):
		cause, fix = "it has a journal: a recorder writes it, or was killed while it did", "choose another --output, or extend it with --append"
	case errors.Is(f.Err, tracedb.ErrUnwritable):
		fix = "choose an --output that this user can write"
	case errors.Is(f.Err, tracedb.ErrNoSpace):
		fix = "free some space, or choose another --output"
	case errors.Is(f.Err, ErrFull):
		cause, fix = "it has the size at which a recording ends", "give a larger --max-size, or choose another --output"
	default:
		if cause, fix = whyNotExtended(f.Err); fix == "" {
			return false
		}
	}
	f.What = "cannot write the trace: " + FirstLine(f.Err)
	return f.set(Failed, cause, fix)
}

// whyNotExtended has the causes of failures of --append.
func whyNotExtended(err error) (cause, fix string) {
	fix = "leave it as it is, and choose another --output"
	switch {
	case errors.Is(err, tracedb.ErrOtherBoot):
		return "times of different boots do not fit on one line", fix
	case errors.Is(err, tracedb.ErrOtherLayout):
		return "only a trace with this version's tables, and no others, is extended", fix
	case errors.Is(err, tracedb.ErrForeign):
		return "only a file of this user's, with one name, on a local filesystem is extended", fix
	case errors.Is(err, tracedb.ErrNewerFormat):
		return "it was written by a newer rtl-attach", "extend it with that version, or choose another --output"
	case errors.Is(err, tracedb.ErrNotTrace):
		return "what is there was not made by rtl-attach", fix
	case errors.Is(err, tracedb.ErrBusy):
		return "another recording goes into it, or somebody reads it", "wait for that, or choose another --output"
	case errors.Is(err, tracedb.ErrJournal):
		return FirstLine(err), "move the journal away, if it is none of a trace's; or choose another --output"
	}
	return "", ""
}
