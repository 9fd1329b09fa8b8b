package session

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// keep gives the rows since the last call to a flight recorder.
func (o *observation) keep() error {
	if o.process == nil {
		return nil
	}
	rows := o.process.Take()
	o.kept.Add(&rows)
	if o.kept.WantsCount() {
		o.kept.Count(o.process.Lost())
	}
	return nil
}

// complete gives a flight recorder all rows until now.
func (o *observation) complete() {
	if o.process == nil {
		o.kept.Complete(o.window.BegunNS, nil, nil, failure.FirstLine(o.err))
		return
	}
	now, err := o.process.Now()
	_ = o.keep() // it has no errors
	if err != nil {
		now.Detail = sanitize.Text(fmt.Sprintf("%s; %v", now.Detail, err))
	}
	if now.AtNS != 0 {
		o.kept.Complete(now.AtNS, now.Losses, now.Waits, o.kept.Explain(now.Detail))
	}
}

// beside returns what writes the kept rows into a trace.
func (o *observation) beside() func(s *tracedb.Session, fromNS, untilNS uint64) error {
	o.complete()
	cut := o.kept.Cut()
	var name func(map[uint32]bool) []cputrace.Frame
	if o.process != nil {
		name = o.process.Names
	}
	return func(s *tracedb.Session, fromNS, untilNS uint64) error { return cut.Write(s, fromNS, untilNS, name) }
}

// finishKept ends the observation. Traces that are written later need its frames' names.
func (o *observation) finishKept() {
	if o.process == nil {
		return
	}
	o.process.Stop()
	o.complete()
	o.kept.Name(o.process.Names(o.kept.FrameIDs()))
	o.process.Close()
}
