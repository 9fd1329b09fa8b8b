package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// lateReasons are the reasons for which a call is counted without a record: its thread's lane was full, or
// its thread had not published it when the session ended. Both are possible only if a thread or the worker
// waits for a processor for long, and with either policy of the buffer.
var lateReasons = []ring.Reason{ring.ReasonBacklog, ring.ReasonNotCompleted}

// CheckKinds returns what is wrong with the accounts of the kinds of record in a trace of one session. It must
// have exactly these kinds. What is missing must have been counted by the payload, and for a reason that the
// policy of the buffer allows.
func (tr *Trace) CheckKinds(kinds []string, lossless bool) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if has := slices.Sorted(maps.Keys(tr.Kinds)); !slices.Equal(has, slices.Sorted(slices.Values(kinds))) {
		say("kinds %v, asked for %v", has, kinds)
	}
	var missing, lost int64
	for kind, a := range tr.Kinds {
		missing += a.Unexplained
		for _, text := range tr.checkKind(kind, a, lossless) {
			say("%s: %s: %+v", kind, text, a)
		}
	}
	for _, q := range tr.Coverage {
		missing += max(q.Unexplained, 0)
		if q.Unexplained < 0 {
			say("a queue has more records than dispatches: %+v", q)
		}
	}
	for _, loss := range tr.Losses {
		lost += loss.Records
		if loss.Cause != collector.CauseUndelivered && (lossless || loss.Cause != collector.CauseRingFull) {
			say("%+v", loss)
		}
	}
	if missing > lost {
		say("%d are missing, and %d are counted as lost: %+v", missing, lost, tr.Losses)
	}
	return wrong
}

// checkKind checks a kind's account against the payload's counters.
func (tr *Trace) checkKind(kind string, a KindAccount, lossless bool) (wrong []string) {
	count := func(what string) int64 { return tr.Counters[strings.ReplaceAll(kind, "-", "_")+"_"+what] }
	var untimed, late int64
	for reason, r := range tracedb.Reasons {
		n := count("untimed_" + r.Name)
		untimed += n
		if slices.Contains(lateReasons, ring.Reason(reason)) {
			late += n
		}
	}
	if begun, timed := count("begun"), count("timed"); begun != a.Begun || begun != timed+untimed {
		wrong = append(wrong, fmt.Sprintf("the payload counts %d begun, %d timed, %d untimed", begun, timed, untimed))
	}
	if a.Unexplained < 0 || a.Begun != a.Timed+a.Untimed+a.Unexplained {
		wrong = append(wrong, "it does not add up")
	}
	if lossless && a.Unexplained > late {
		wrong = append(wrong, fmt.Sprintf("%d are missing, and %d were late", a.Unexplained, late))
	}
	return wrong
}
