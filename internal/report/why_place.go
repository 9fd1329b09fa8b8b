package report

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// cause returns a part as a cause, and what a reader distinguishes in it.
func (w *explainer) cause(p *whyidle.Part) (c IdleCause, key mergeKey, err error) {
	c = IdleCause{NS: p.NS, KernelNS: kernelNS(p), State: threadStates[p.State], Times: p.Times, Samples: p.Samples}
	if c.Thread, err = w.thread(p.Thread); err != nil {
		return c, key, err
	}
	if c.frames, c.cut, err = w.stacks.Of(p.Stack); err != nil {
		return c, key, err
	}
	if p.State == whyidle.Blocked {
		c.WaitsFor = whyidle.WaitsFor(&p.Cause, c.frames)
	}
	in := whyidle.PlaceOf(c.frames)
	key = mergeKey{p.Thread, c.State, in.WithoutLines(), c.WaitsFor}
	c.In = placeIn(in)
	return c, key, nil
}

// kernelNS returns the time of a part in which its thread ran in the kernel.
func kernelNS(p *whyidle.Part) int64 {
	if p.Kernel {
		return p.NS
	}
	return 0
}

func placeIn(p whyidle.Place) *CodePlace {
	if !p.App.Known() {
		return nil
	}
	c := &CodePlace{CodeFrame: frameOf(p.App)}
	if p.Inside.Known() {
		inside := frameOf(p.Inside)
		c.Call = &inside
	}
	return c
}

func frameOf(f whyidle.Frame) CodeFrame {
	return CodeFrame{Function: f.Name, File: f.File, Line: f.Line, Python: f.Kind == cputrace.Python, Object: f.ELF()}
}

// waker returns who ended most of the time of a cause; nil: it is not known.
func (w *explainer) waker(wakers map[whyidle.Waker]int64) (*IdleWaker, whyidle.Waker, error) {
	var most whyidle.Waker
	for by, ns := range wakers {
		if by != (whyidle.Waker{}) && (most == (whyidle.Waker{}) || cmp.Or(cmp.Compare(ns, wakers[most]), cmp.Compare(most.Thread, by.Thread),
			cmp.Compare(most.PID, by.PID), cmp.Compare(most.TID, by.TID)) > 0) {
			most = by
		}
	}
	switch {
	case most.Thread != 0:
		t, err := w.thread(most.Thread)
		if t == nil {
			return nil, most, err
		}
		return &IdleWaker{IdleThread: *t, NS: wakers[most]}, most, nil
	case most.PID != 0:
		return &IdleWaker{IdleThread: IdleThread{PID: most.PID, TID: most.TID}, NS: wakers[most], otherProcess: true}, most, nil
	}
	return nil, most, nil
}

// describe adds what a waker did in at least half of the time that it ended: the line if one has half, else the function.
func (w *explainer) describe(by *IdleWaker, doing map[whyidle.Meanwhile]int64) error {
	lines, functions := map[doingAt]int64{}, map[doingAt]int64{}
	for m, ns := range doing {
		frames, _, err := w.stacks.Of(m.Stack)
		if err != nil {
			return err
		}
		in := whyidle.PlaceOf(frames).WithoutLines()
		lines[doingAt{m.State, in}] += ns
		in.App.Line, in.Inside.Line = 0, 0
		functions[doingAt{m.State, in}] += ns
	}
	for _, sums := range []map[doingAt]int64{lines, functions} {
		if len(sums) == 0 {
			continue
		}
		if most := mostOf(sums); sums[most] >= by.NS-sums[most] {
			by.State, by.In = threadStates[most.state], placeIn(most.in)
			return nil
		}
	}
	return nil
}

// doingAt is what a waker did, as a reader distinguishes it.
type doingAt struct {
	state whyidle.State
	in    whyidle.Place
}

func mostOf(sums map[doingAt]int64) doingAt {
	return slices.MaxFunc(slices.Collect(maps.Keys(sums)), func(a, b doingAt) int {
		return cmp.Or(cmp.Compare(sums[a], sums[b]), cmp.Compare(b.in.App.Name, a.in.App.Name), cmp.Compare(b.in.App.Line, a.in.App.Line), cmp.Compare(b.state, a.state))
	})
}

// join makes of the places of two stacks what they have in common: their functions are the same.
func (p *CodePlace) join(other *CodePlace) {
	if p == nil || other == nil {
		return
	}
	p.CodeFrame.join(&other.CodeFrame)
	if p.Call != nil && other.Call != nil {
		p.Call.join(other.Call)
	}
}

func (f *CodeFrame) join(other *CodeFrame) {
	if f.Line != other.Line || f.File != other.File {
		f.Line = 0
	}
	if f.File != other.File {
		f.File = f.Object
	}
}

// text returns a frame for readers: "Engine.poll (engine.py:84)", "hipMemcpy (libamdhip64.so.5)".
func (f CodeFrame) text() string {
	name, file := shorten(cmp.Or(f.Function, "code without a name"), nameWidth), path.Base(f.File)
	switch {
	case f.File == "":
		return name
	case f.Line > 0:
		return fmt.Sprintf("%s (%s:%d)", name, file, f.Line)
	}
	return fmt.Sprintf("%s (%s)", name, file)
}

// text returns a place for readers. Of Python code, it begins with the innermost function.
func (p *CodePlace) text() string {
	switch {
	case p == nil:
		return "code that is not known"
	case p.Call == nil:
		return p.CodeFrame.text()
	case p.Call.Python:
		return p.Call.text() + ", called from " + p.CodeFrame.text()
	}
	return p.CodeFrame.text() + ", in " + p.Call.text()
}

// caller returns a place without the call of a native library.
func (p *CodePlace) caller() *CodePlace {
	if p == nil || p.Call == nil || p.Call.Python {
		return p
	}
	return &CodePlace{CodeFrame: p.CodeFrame}
}

func (t *IdleThread) text(several bool) string {
	if t == nil {
		return "a thread that is not known"
	}
	text := fmt.Sprintf("thread %d", t.TID)
	if t.Name != "" {
		text += " (" + shorten(t.Name, nameWidth/2) + ")"
	}
	if several {
		text += fmt.Sprintf(" of pid %d", t.PID)
	}
	return text
}

// sentence says the cause. It is as in the trace: sanitize it for a terminal.
func (c *IdleCause) sentence(several bool) string {
	who := c.Thread.text(several)
	switch c.State {
	case IdleRunning:
		return who + " was running " + c.In.text() + c.inKernel()
	case IdleReady:
		return who + " was ready to run " + c.In.text() + ", and had no processor"
	case IdleUnobserved:
		return who + " was not observed"
	case IdleNotSampled:
		return who + " has no sample: it did not run, or less than samples show, or none was taken then (--sched records waits)"
	}
	return who + " " + c.waited() + c.Waker.text(c.WaitsFor, several)
}

// inKernel goes on in the sentence about a thread that ran, if a tenth of it or more was in the kernel.
func (c *IdleCause) inKernel() string {
	switch {
	case c.KernelNS <= 0 || c.KernelNS < c.NS/10:
		return ""
	case c.KernelNS >= c.NS:
		return ", in the kernel"
	}
	return fmt.Sprintf(", %.0f%% of it in the kernel", percent(c.KernelNS, c.NS))
}

func (c *IdleCause) waited() string {
	in := c.In.text()
	switch c.WaitsFor {
	case whyidle.ForGIL:
		return "waited for the GIL in " + in
	case whyidle.ForGPU:
		return "waited for the GPU in " + in
	case whyidle.ForSleep:
		return "slept in " + c.In.caller().text()
	case "", whyidle.ForLock:
		return "waited in " + in
	}
	return "waited in " + in + ", " + c.WaitsFor
}

// text goes on in the sentence about a wait.
func (w *IdleWaker) text(waitsFor string, several bool) string {
	if w == nil {
		return ""
	}
	who := w.IdleThread.text(several)
	if w.otherProcess {
		who = fmt.Sprintf("process %d (thread %d)", w.PID, w.TID)
	}
	text := ", until " + who + " woke it"
	if waitsFor == whyidle.ForGIL {
		text = ", until " + who + " released it"
	}
	switch {
	case w.In == nil && w.State == IdleRunning:
		text += ", which was running (there is no sample)"
	case w.In == nil:
	case w.State == IdleRunning:
		text += ", which was running " + w.In.text()
	case w.State == IdleReady:
		text += ", which was ready to run " + w.In.text() + ", and had no processor"
	case w.State == IdleBlocked:
		text += ", which waited in " + w.In.text()
	}
	return text
}
