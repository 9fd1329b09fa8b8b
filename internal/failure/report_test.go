package failure

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// TestCopiesHaveTheirJournal: nobody is told to copy a trace that may have a journal
// without it.
func TestCopiesHaveTheirJournal(t *testing.T) {
	failures := []*Error{
		ReportFailed("t.db", fmt.Errorf("open t.db: %w", tracedb.ErrCutOff)),
		ExportFailed("t.db", "t.pftrace", fmt.Errorf("open t.db: %w", tracedb.ErrCutOff)),
		ReportFailed("t.db", errors.New("disk I/O error")),
	}
	for _, known := range unreadable("t.db") {
		failures = append(failures, ReportFailed("t.db", known.err))
	}
	for i, f := range failures {
		if advised := strings.Contains(f.Fix, "copy"); advised != strings.Contains(f.Fix, "-journal") || i < 3 && !advised {
			t.Errorf("%v: %q", f.Err, f.Fix)
		}
	}
}
