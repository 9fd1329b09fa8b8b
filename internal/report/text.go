package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const nameWidth = 44

// WriteJSON writes the summary as one JSON object.
func (s *Summary) WriteJSON(w io.Writer) error {
	return sanitize.WriteJSON(w, s)
}

// WriteText writes the summary for people.
func (s *Summary) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  %s\n", sanitize.Text(s.File), humanize.Bytes(s.SizeBytes))
	s.writeProcesses(&b)
	s.writeSessions(&b)
	s.writeFilters(&b)
	s.writeCoverage(&b)
	s.writeUnavailable(&b)
	s.writeLosses(&b)
	s.writeGPUs(&b)
	s.writeKernels(&b)
	s.writeLeftOut(&b)
	if l := s.LaunchToStart; l != nil {
		line(&b, "Launch → start", "p50 %s  p99 %s", duration(l.P50NS), duration(l.P99NS))
	}
	s.writeKinds(&b)
	s.writePauses(&b)
	s.writeRates(&b)
	s.writeIdleCauses(&b)
	s.writeNext(&b)
	_, err := w.Write(b.Bytes())
	return err
}

// line writes a label and what it is about; without a label it goes on under the last one.
func line(b *bytes.Buffer, label, format string, args ...any) {
	const column = 11 // of the text
	pad := max(2, column-utf8.RuneCountInString(label))
	fmt.Fprintf(b, "%s%s%s\n", label, strings.Repeat(" ", pad), fmt.Sprintf(format, args...))
}

// writeSessions mentions only sessions that did not end as asked.
func (s *Summary) writeSessions(b *bytes.Buffer) {
	s.writeTrigger(b)
	for _, one := range s.Sessions {
		label, what := "Cut off", sanitize.Text(one.session.Unfinished())
		switch state := one.session.State; {
		case state == traceread.InProgress:
			label, what = "So far", what+one.known()
		case state == traceread.CutOff && one.WindowEndNS == 0: // in format 1
			what += "; the trace ends with its last commit"
		case state != traceread.Ended:
			what += one.known()
		case one.session.EndedAsAsked():
			continue
		default:
			label, what = "Ended", sanitize.Text(one.EndReason)
		}
		line(b, label, "pid %d: %s", one.PID, what)
	}
}

// writeTrigger writes what has made the flight recorder write the trace, and where in the window that was. The sessions of
// several processes have one trigger.
func (s *Summary) writeTrigger(b *bytes.Buffer) {
	var last *Trigger
	limits := map[string]bool{}
	for _, one := range s.Sessions {
		t := one.Trigger
		if t == nil {
			continue
		}
		limits[t.LimitedBy] = true
		if last != nil && last.Number == t.Number && last.FiredNS == t.FiredNS {
			continue
		}
		last = t
		what := t.Expression
		if t.Value != "" {
			what += ": " + t.Value
		}
		line(b, "Trigger", "%d, %s, at %s of the window", t.Number, sanitize.Text(what), duration(int64(t.FiredNS)-one.WindowStartNS))
	}
	switch {
	case limits[tracedb.LimitSize]:
		line(b, "", "the window begins where --keep-size ends: what is older was not kept")
	case limits[tracedb.LimitStart]:
		line(b, "", "the window begins with the recording")
	}
}

// known says up to when a session is complete that has not ended, or was cut off.
func (one *Session) known() string {
	if one.WindowEndNS <= one.WindowStartNS {
		return "; nothing is complete yet"
	}
	return fmt.Sprintf("; complete up to %s after its begin, and idle times are of that", duration(one.WindowEndNS-one.WindowStartNS))
}

func (s *Summary) writeCoverage(b *bytes.Buffer) {
	c := s.Coverage
	atLeast := ""
	if c.WindowsOpen > 0 {
		atLeast = "at least "
	}
	line(b, "Coverage", "%s of %s queues, %s of %s%s dispatches timed",
		humanize.Count(c.QueuesRecorded), humanize.Count(c.QueuesSeen), humanize.Count(c.Timed), atLeast, humanize.Count(c.Dispatches))
	if c.Filtered > 0 {
		line(b, "", "%s filtered out: not in the list of kernels, and busy, not idle", humanize.Count(c.Filtered))
	}
	for _, u := range c.Untimed {
		line(b, "", "%s untimed: %s", humanize.Count(u.Packets), sanitize.Text(u.Text))
	}
	for _, remark := range []struct {
		n          int64
		what, text string
	}{
		{c.Unexplained, "dispatch", "published whose record never arrived"},
		{c.Surplus, "dispatch", "beyond what the payload says it published: do not trust these numbers"},
		{c.AfterDetach, "slot", "claimed while active and published after the detach"},
		{c.RawBefore, "claim", "made after the attach, before the queue was recorded"},
		{c.QueuedBefore, "packet", "queued before the recording: what ran of them is not in it"},
		{c.RawUnseen, "claim", "made after the attach on queues that were not known yet, or never recorded"},
		{c.QueuesForeign, "queue", "of another tool or without hardware: not recorded"},
		{c.QueuesExcluded, "queue", "of other GPUs left as they were: nothing of these GPUs is here"},
		{c.QueuesSeen - c.QueuesRecorded, "queue", "seen and never recorded"},
		{c.WindowsOpen, "queue", "whose end was not seen: what was in flight there is not known"},
	} {
		if remark.n > 0 {
			line(b, "", "%s %s", humanize.Things(remark.n, remark.what), remark.text)
		}
	}
}

func (s *Summary) writeUnavailable(b *bytes.Buffer) {
	for i, u := range s.Unavailable {
		label, in := "", ""
		if i == 0 {
			label = "Missing"
		}
		if all := int64(len(s.Sessions)); u.Sessions < all {
			in = fmt.Sprintf(" in %d of %s", u.Sessions, humanize.Things(all, "session"))
		}
		line(b, label, "%s records: could not be recorded%s: %s", sanitize.Text(u.Kind), in, sanitize.Text(u.Reason))
	}
}

func (s *Summary) writeLosses(b *bytes.Buffer) {
	if len(s.Losses) == 0 {
		line(b, "Lost", "0 records")
	}
	for i, l := range s.Losses {
		label := ""
		if i == 0 {
			label = "Lost"
		}
		number := humanize.Count(l.Records)
		if l.Records == 0 {
			number = "not known how many"
		}
		text := number + ": " + sanitize.Text(l.Cause)
		if l.Cause == collector.CauseRingFull {
			text += "; try a larger --buffer-size"
		}
		line(b, label, "%s", text)
	}
}

func (s *Summary) writeGPUs(b *bytes.Buffer) {
	if len(s.GPUs) == 0 {
		return
	}
	var figures []string
	atLeast := false
	for _, g := range s.GPUs {
		share := humanize.Percent(g.Percent)
		switch {
		case g.RecordedNS == 0:
			share = "-"
		case g.AtLeast:
			share, atLeast = "≥"+share, true
		}
		figures = append(figures, fmt.Sprintf("%d: %s", g.ID, share))
	}
	note := ""
	if atLeast {
		note = "   (at least: see Coverage for what was not timed)"
	}
	line(b, "GPU busy", "%s%s", strings.Join(figures, "  "), note)
}

func (s *Summary) writeKernels(b *bytes.Buffer) {
	if len(s.Kernels) == 0 {
		return
	}
	row := func(name, calls, total, avg, percent string) {
		fmt.Fprintf(b, "%-*s %11s %8s %8s %6s\n", nameWidth+1, name, calls, total, avg, percent)
	}
	row("Top kernels", "calls", "total", "avg", "%")
	for _, k := range s.Kernels {
		row(" "+shorten(sanitize.Text(brief(k.Name)), nameWidth), humanize.Count(k.Calls), duration(k.TotalNS), duration(k.AvgNS), fmt.Sprintf("%.1f", k.Percent))
	}
	if more := s.KernelsInAll - int64(len(s.Kernels)); more > 0 {
		fmt.Fprintf(b, " and %s more\n", humanize.Count(more))
	}
}

// writePauses says the stops by the kernel's clock, where that is known of all of them.
func (s *Summary) writePauses(b *bytes.Buffer) {
	p := s.Pauses
	stops, worst, total, clock := p.Stops, p.WorstNS, p.TotalNS, "tool's clock, which includes waits for a processor"
	if seen := p.Scheduler; seen != nil {
		stops, worst, total, clock = seen.Stops, seen.WorstNS, seen.TotalNS, "kernel's clock"
	}
	switch {
	case p.Stops == 0:
		line(b, "Paused", "nothing")
	case stops == 1:
		line(b, "Paused", "one thread once, for %s (%s)", duration(worst), clock)
	default:
		line(b, "Paused", "%s of %s, worst %s, together %s (%s)",
			humanize.Things(stops, "stop"), humanize.Things(p.Threads, "thread"), duration(worst), duration(total), clock)
	}
}

// writeNext says commands that a shell takes as they stand, remarks included.
func (s *Summary) writeNext(b *bytes.Buffer) {
	if s.Coverage.Timed+s.Coverage.Filtered == 0 {
		return // nothing to look at
	}
	tool, file := shellWord(sanitize.Text(cmp.Or(s.Command, "rtl-attach"))), shellWord(sanitize.Text(s.File))
	line(b, "Next:", "%s", s.reportCommand())
	line(b, "", "%s export %s -f pftrace    # for ui.perfetto.dev", tool, file)
	line(b, "", "%s export %s -f rocprofv3  # for TraceLens%s", tool, file, s.perProcess())
	line(b, "", "sqlite3 %s 'SELECT * FROM top'", file)
}

// perProcess: TraceLens takes one process of a file.
func (s *Summary) perProcess() string {
	for _, one := range s.Sessions {
		if one.PID != s.Sessions[0].PID {
			return ", a file for each process"
		}
	}
	return ""
}

// shellWord quotes a file's name where a shell would not take it as it is.
func shellWord(name string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+=:,@%", r)
	}
	if strings.HasPrefix(name, "-") {
		name = "./" + name // no flag
	}
	if name != "" && !strings.ContainsFunc(name, special) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
