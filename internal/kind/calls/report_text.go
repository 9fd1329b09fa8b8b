package calls

import (
	"fmt"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// Most lines of each type in a report.
const (
	mostFunctionLines = 8
	mostWaitLines     = 4
	mostErrorLines    = 4
	mostStreamLines   = 4
	mostGraphLines    = 4
)

// What a report says of an API that was not intercepted, or not everywhere.
const (
	notUsed = "the process does not use the library"
	notSeen = "calls by pointers from dlsym are not seen"
)

// lines returns the section's text. It sanitizes names, which come from the trace.
func (c *Report) lines(a *api, where string, sessions int) []kind.Line {
	all := []kind.Line{{Label: a.label, Text: fmt.Sprintf("%s of %s recorded", humanize.Count(c.Timed), humanize.Count(c.Begun))}}
	say := func(format string, args ...any) { all = append(all, kind.Line{Text: fmt.Sprintf(format, args...)}) }
	if c.Untimed > 0 {
		say("%s begun and not recorded when they returned", humanize.Count(c.Untimed))
	}
	if c.Unexplained > 0 {
		say("%s whose record never arrived", humanize.Count(c.Unexplained))
	}
	if c.Surplus > 0 {
		say("%s beyond what the payload says were begun: do not trust these numbers", humanize.Count(c.Surplus))
	}
	if c.Calls > 0 {
		say("%s of %s%s, in %s", humanize.Things(c.Calls, "call"), humanize.Things(len(c.Functions), "function"), where, duration(c.TotalNS))
	}
	if len(c.NotLinked) > 0 {
		say("kernels are submitted by HIP's own thread (AMD_DIRECT_DISPATCH=0): calls are not linked to kernels%s", c.notLinkedWhere(sessions))
	}
	c.sayFunctions(say)
	c.Collectives.say(say)
	c.sayWaits(say)
	c.sayErrors(say)
	for _, text := range c.coverageText() {
		say("%s", text)
	}
	return append(all, c.stepLines(where)...)
}

// notLinkedWhere names the sessions of NotLinked if there are others.
func (c *Report) notLinkedWhere(sessions int) string {
	if len(c.NotLinked) == sessions {
		return ""
	}
	return " in " + humanize.Things(len(c.NotLinked), "session") + " of " + humanize.Count(int64(sessions))
}

// none returns what was not recorded, and why; "": calls were recorded.
func (c *Report) none(a *api) string {
	if c.Begun > 0 || c.Timed > 0 {
		return ""
	}
	for _, v := range c.Coverage {
		switch v.way {
		case WayNone, WayLate:
			return fmt.Sprintf("%s (%s)", a.label, v)
		case WayGOT:
			return fmt.Sprintf("%s (%s)", a.label, notSeen)
		}
	}
	return a.label
}

func duration(ns int64) string { return humanize.Duration(time.Duration(ns)) }

func (c *Report) sayFunctions(say func(string, ...any)) {
	for _, f := range c.Functions[:min(len(c.Functions), mostFunctionLines)] {
		say("%s: %s, %s, mean %s, max %s", f.Name, humanize.Count(f.Calls), duration(f.TotalNS), duration(f.MeanNS), duration(f.MaxNS))
	}
	if n := len(c.Functions) - mostFunctionLines; n > 0 {
		say("and %s with less time", humanize.Things(n, "function"))
	}
}

func (c *Report) sayWaits(say func(string, ...any)) {
	for _, w := range c.Waits[:min(len(c.Waits), mostWaitLines)] {
		say("%s: %s in %s for the GPU, most in %s", w.title(), duration(w.TotalNS), humanize.Things(w.Calls, "wait"), w.Most)
	}
	if n := len(c.Waits) - mostWaitLines; n > 0 {
		say("and %s that waited less", humanize.Things(n, "thread"))
	}
}

// title returns a thread for people.
func (w *Wait) title() string {
	switch {
	case w.Thread == 0:
		return "unknown threads"
	case w.Name == "":
		return fmt.Sprintf("thread %d", w.Thread)
	}
	return fmt.Sprintf("thread %d (%s)", w.Thread, sanitize.Text(w.Name))
}

func (c *Report) sayErrors(say func(string, ...any)) {
	for _, e := range c.Errors[:min(len(c.Errors), mostErrorLines)] {
		say("%s returned %s: %s", e.Function, e.Error, humanize.Things(e.Calls, "time"))
	}
	if n := len(c.Errors) - mostErrorLines; n > 0 {
		say("and %s returned less often", humanize.Things(n, "other error"))
	}
}

// coverageText returns what was intercepted, each text once: sessions of one program agree.
func (c *Report) coverageText() (texts []string) {
	said := map[string]bool{}
	for _, v := range c.Coverage {
		if text := v.String(); !said[text] {
			said[text] = true
			texts = append(texts, text)
		}
	}
	return texts
}

// String returns how calls were intercepted, and which are not seen.
func (v Covered) String() string {
	var b strings.Builder
	switch v.way {
	case WayNone:
		return notUsed
	case WayLate:
		return "the process loaded the library during the recording: its calls are not recorded; a recording from now on has them"
	case WayTable:
		b.WriteString("by the library's dispatch table: ")
	case WayGOT:
		fmt.Fprintf(&b, "by the callers' global offset tables (%s, %s): %s; ",
			humanize.Things(v.Modules, "module"), humanize.Things(v.Entries, "entry"), notSeen)
	}
	b.WriteString(v.hookedText())
	if not := v.missing(); len(not) > 0 {
		b.WriteString("; not: " + strings.Join(not, ", "))
	}
	if v.Dropped > 0 {
		fmt.Fprintf(&b, "; %s could not be replaced: calls through them are not seen", humanize.Things(v.Dropped, "entry"))
	}
	return b.String()
}

// hookedText returns how many functions were intercepted, of those that the library exports or to
// which --operations restricted the recording.
func (v Covered) hookedText() string {
	if v.Omitted == 0 {
		return fmt.Sprintf("%s of %s", humanize.Count(v.Hooked), humanize.Things(v.Functions, "exported function"))
	}
	return fmt.Sprintf("restricted to %s by --operations, %s of them intercepted",
		humanize.Things(max(0, v.Functions-v.Omitted-v.Excluded-v.Unknown), "function"), humanize.Count(v.Hooked))
}

// missing returns how many functions were not intercepted, by reason. A restricted recording wants
// neither the excluded nor the unknown ones.
func (v Covered) missing() (texts []string) {
	add := func(n int64, why string) {
		if n > 0 {
			texts = append(texts, humanize.Count(n)+" "+why)
		}
	}
	if v.Omitted == 0 {
		add(v.Excluded, "too frequent, or not safe to intercept")
		add(v.Unknown, "unknown to this version")
	}
	add(v.Functions-v.Hooked-v.Excluded-v.Omitted-v.Unknown, "that this version cannot intercept")
	return texts
}
