package cputrace

import (
	"errors"
	"slices"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// keptDetail says what a cut does not have.
const keptDetail = "waits shorter than the least are not counted in a flight recorder's trace"

// rowsAtOnce is how many rows are written in one transaction.
const rowsAtOnce = 1 << 14

// Cut is the rows of a keeper, as they were at a time. It does not change.
type Cut struct {
	window     Window
	frames     []Frame
	stacks     []Stack
	chunks     []rows
	waits      []Wait
	losses     []Loss
	counts     []count
	fromNS     uint64
	completeNS uint64
	detail     string
}

// Cut returns the rows that are kept.
func (k *Keeper) Cut() *Cut {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &Cut{
		window: k.window, frames: k.frames, stacks: k.stacks, waits: k.waits, losses: k.losses, counts: slices.Clone(k.counts), fromNS: k.fromNS,
		completeNS: k.completeNS, detail: k.detail,
	}
	for _, one := range k.chunks {
		c.chunks = append(c.chunks, *one) // further rows do not change these
	}
	return c
}

// lossesSince returns what is missing since a time, or since a little earlier.
func (c *Cut) lossesSince(fromNS uint64) (since []Loss) {
	before := map[string]uint64{}
	for _, one := range c.counts {
		if one.ns > fromNS {
			break
		}
		for _, l := range one.losses {
			before[l.Cause] = l.Events
		}
	}
	for _, l := range c.losses {
		if l.Events > before[l.Cause] {
			since = append(since, Loss{l.Cause, l.Events - before[l.Cause]})
		}
	}
	return since
}

// Write writes what happened from a time until another one into a session. name returns better descriptions of frames; nil:
// there are none.
func (c *Cut) Write(s *tracedb.Session, fromNS, untilNS uint64, name func(ids map[uint32]bool) []Frame) error {
	o := c.window
	o.BegunNS = max(fromNS, c.fromNS)
	endNS := max(min(untilNS, c.completeNS), o.BegunNS)
	b := c.within(o.BegunNS, endNS)
	c.define(b, name)
	w := NewWriter(s)
	if err := errors.Join(w.Begin(o), w.Write(&Batch{Frames: b.Frames, Stacks: b.Stacks})); err != nil {
		return err
	}
	for len(b.Samples)+len(b.Waits) > 0 {
		samples, waits := min(len(b.Samples), rowsAtOnce), min(len(b.Waits), rowsAtOnce)
		if err := w.Write(&Batch{Samples: b.Samples[:samples], Waits: b.Waits[:waits]}); err != nil {
			return err
		}
		b.Samples, b.Waits = b.Samples[samples:], b.Waits[waits:]
	}
	losses := c.lossesSince(o.BegunNS)
	if n := w.Omitted(); n > 0 {
		losses = append(losses, Loss{"threads that the trace has no room for: samples and waits", n})
	}
	return w.End(endNS, losses, c.detail)
}

// within returns the samples and waits of a time. Waits that began before it, or ended after it, are clipped.
func (c *Cut) within(fromNS, endNS uint64) *Batch {
	b, ended := &Batch{}, map[begin]bool{}
	for i := range c.chunks {
		for _, s := range c.chunks[i].samples {
			if s.TimeNS >= fromNS && s.TimeNS <= endNS {
				b.Samples = append(b.Samples, s)
			}
		}
		for _, w := range c.chunks[i].waits {
			if addWait(b, w, fromNS, endNS); w.InNS > endNS {
				ended[begin{w.TID, w.OutNS}] = true
			}
		}
	}
	for _, w := range c.waits {
		if !ended[begin{w.TID, w.OutNS}] {
			addWait(b, w, fromNS, endNS)
		}
	}
	return b
}

// begin identifies a wait.
type begin struct {
	tid   uint32
	outNS uint64
}

func addWait(b *Batch, w Wait, fromNS, endNS uint64) {
	if w.OutNS > endNS || w.InNS != 0 && w.InNS < fromNS {
		return
	}
	if w.WokenNS != 0 {
		w.WokenNS = max(w.WokenNS, fromNS)
	}
	if w.OutNS = max(w.OutNS, fromNS); w.WokenNS > endNS {
		w.WokenNS, w.WakerTID, w.OtherPID, w.OtherTID = 0, 0, 0, 0
	}
	if w.InNS > endNS {
		w.InNS = 0
	}
	b.Waits = append(b.Waits, w)
}

// define adds the stacks and frames to which the rows refer.
func (c *Cut) define(b *Batch, name func(map[uint32]bool) []Frame) {
	used := map[uint32]bool{}
	for i := range b.Samples {
		used[b.Samples[i].Stack] = true
	}
	for i := range b.Waits {
		used[b.Waits[i].Stack] = true
	}
	frames := map[uint32]bool{}
	for i := len(c.stacks) - 1; i >= 0; i-- { // a parent comes before its children
		if s := c.stacks[i]; used[s.ID] {
			used[s.Parent], frames[s.Frame] = true, true
		}
	}
	for _, s := range c.stacks {
		if used[s.ID] {
			b.Stacks = append(b.Stacks, s)
		}
	}
	var better map[uint32]Frame
	if name != nil {
		better = byID(name(frames))
	}
	for _, f := range c.frames {
		if named, ok := better[f.ID]; ok {
			f = named
		}
		if frames[f.ID] {
			b.Frames = append(b.Frames, f)
		}
	}
}
