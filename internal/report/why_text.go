package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// What the text has of each GPU, and of each gap.
const (
	causesShown    = 12
	leastShare     = 0.5 // percent
	gapCausesShown = 6
	framesShown    = 12
)

// whyHint says how a recording gets the answer.
const whyHint = "not recorded: --sample cpu:99 --sched would say what threads did while a GPU was idle"

// writeWhy writes what threads did while the GPUs were idle.
func (r *Report) writeWhy(b *bytes.Buffer) {
	w := r.WhyIdle
	if w == nil {
		if slices.ContainsFunc(r.GPUs, func(g GPU) bool { return g.IdleNS > 0 }) {
			line(b, "Why idle", whyHint)
		}
		return
	}
	label := "Why idle"
	for i := range w.GPUs {
		g := &w.GPUs[i]
		line(b, label, "GPU %d, %s idle: what the thread did that submitted the kernel after each gap", g.GPU, duration(g.IdleNS))
		label = ""
		shown := 0
		for _, c := range g.Causes {
			if shown == causesShown || c.Percent < leastShare {
				break
			}
			shown++
			line(b, "", "%6s  %s", humanize.Percent(c.Percent), sanitize.Text(c.Text))
		}
		if rest := g.Causes[shown:]; len(rest) > 0 {
			ns := int64(0)
			for _, c := range rest {
				ns += c.NS
			}
			line(b, "", "%6s  %s", humanize.Percent(percent(ns, g.IdleNS)), "other: "+humanize.Things(int64(len(rest)), "cause"))
		}
		if text := g.exactness(w.lostWaits()); text != "" {
			line(b, "", "%s", text)
		}
	}
	for _, d := range w.Details {
		line(b, "", "not observed: %s", sanitize.Text(d))
	}
	for _, l := range w.Losses {
		line(b, "", "lost: %s: %s", humanize.Things(l.Records, "event"), sanitize.Text(l.Cause))
	}
}

// exactness says how far the shares of a GPU are exact; "": no thread was observed. lost: waits are missing.
func (g *WhyIdleGPU) exactness(lost bool) string {
	switch {
	case g.exactWaits:
		return g.exactText(lost) + g.ranText()
	case g.sampledWaits && g.Samples == 0:
		return "Waits were not recorded (--sched), and there is no sample."
	case g.sampledWaits:
		return fmt.Sprintf("Waits were not recorded (--sched): what threads did is by %s, right to %.1f points", humanize.Things(g.Samples, "sample"), g.errorOf())
	}
	return ""
}

// lostWaits reports whether waits are missing. Lost samples and stacks leave the waits' times exact.
func (w *WhyIdle) lostWaits() bool {
	return slices.ContainsFunc(w.Losses, func(l Loss) bool {
		return !strings.HasSuffix(l.Cause, ": samples") && !strings.HasSuffix(l.Cause, ": stacks") && !strings.HasSuffix(l.Cause, ": stacks of waits")
	})
}

// exactText says which waits are exact.
func (g *WhyIdleGPU) exactText(lost bool) string {
	text := "Waits are exact"
	if g.leastWaitNS > 0 {
		text = fmt.Sprintf("Waits of %s and more are exact", duration(g.leastWaitNS))
	}
	if g.sampledWaits {
		text += " where --sched was on"
	}
	if lost {
		text += ", except for lost ones"
	}
	if g.leastWaitNS > 0 {
		text += "; shorter ones count as running"
	}
	return text
}

// ranText says how far it is exact what threads ran.
func (g *WhyIdleGPU) ranText() string {
	if g.RunningNS == 0 {
		return "."
	}
	what, running := "what ran", humanize.Percent(percent(g.RunningNS, g.IdleNS))
	if g.sampledWaits {
		what = "what else threads did"
	}
	if g.Samples == 0 {
		return fmt.Sprintf("; there is no sample of %s (%s of the idle time): --sample cpu:99", what, running)
	}
	return fmt.Sprintf("; %s (%s of the idle time) is by %s, right to %.1f points; %s of it is in pieces without a sample",
		what, running, humanize.Things(g.Samples, "sample"), g.errorOf(), humanize.Percent(percent(g.UnsampledNS, g.RunningNS)))
}

// writeGapCauses writes the causes of a gap, with their stacks.
func (g *Gap) writeGapCauses(b *bytes.Buffer) {
	for i, c := range g.Causes {
		if i == gapCausesShown {
			line(b, "", "    and %s", humanize.Things(int64(len(g.Causes)-i), "cause"))
			break
		}
		line(b, "", "  %8s  %s", duration(c.NS), sanitize.Text(c.Text))
		c.writeStack(b)
	}
}

func (c *IdleCause) writeStack(b *bytes.Buffer) {
	for i, f := range c.frames {
		if i == framesShown {
			line(b, "", "              … %s", humanize.Things(int64(len(c.frames)-i), "frame"))
			return
		}
		line(b, "", "              %s", sanitize.Text(frameOf(f).text()))
	}
	if c.cut && len(c.frames) > 0 {
		line(b, "", "              … what called it is not known")
	}
}

// stackText returns a stack as one text, the outermost frame first.
func stackText(frames []whyidle.Frame) string {
	var names []string
	for _, f := range slices.Backward(frames) {
		names = append(names, f.Text())
	}
	return strings.Join(names, ";")
}

// whyRows is the CSV table of the causes.
func whyRows(r *Report) (rows [][]any) {
	if r.WhyIdle == nil {
		return nil
	}
	for i := range r.WhyIdle.GPUs {
		g := &r.WhyIdle.GPUs[i]
		for j := range g.Causes {
			rows = append(rows, g.Causes[j].row(g.GPU))
		}
	}
	return rows
}

var whyColumns = []string{
	"gpu", "ns", "percent", "state", "pid", "tid", "thread", "function", "file", "line", "call", "waits_for", "waker_pid", "waker_tid",
	"waker_state", "waker_function", "queue", "kernel", "times", "samples", "text",
}

func (c *IdleCause) row(gpu int64) []any {
	var pid, tid, thread, function, file, line, call, wakerPID, wakerTID, wakerState, wakerFunction any
	if t := c.Thread; t != nil {
		pid, tid, thread = t.PID, t.TID, t.Name
	}
	if p := c.In; p != nil {
		function, file, line = p.Function, p.File, p.Line
		if p.Call != nil {
			call = p.Call.Function
		}
	}
	if w := c.Waker; w != nil {
		wakerPID, wakerTID, wakerState = w.PID, w.TID, w.State
		if w.In != nil {
			wakerFunction = w.In.Function
		}
	}
	return []any{
		gpu, c.NS, c.Percent, c.State, pid, tid, thread, function, file, line, call, c.WaitsFor, wakerPID, wakerTID,
		wakerState, wakerFunction, c.Queue, c.Kernel, c.Times, c.Samples, c.Text,
	}
}

// gapCauseRows is the CSV table of the causes of the longest gaps.
func gapCauseRows(r *Report) (rows [][]any) {
	for i := range r.LongestGaps {
		g := &r.LongestGaps[i]
		for j := range g.Causes {
			c := &g.Causes[j]
			rows = append(rows, append([]any{g.BeginNS, g.LengthNS}, append(c.row(g.GPU), stackText(c.frames))...))
		}
	}
	return rows
}
