package scratch

import (
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	batchSpans    = 512
	mostDescribed = 16 // a payload describes the runtime once in a session
)

// decoder decodes the events of one session.
type decoder struct {
	session   kind.Session
	pairs     pairs
	coverage  []Coverage // to be written
	described int
	arrived   uint64
}

func newDecoder(s kind.Session) kind.Decoder { return &decoder{session: s, pairs: newPairs()} }

// Decode decodes an event, or what the payload says of the runtime.
func (d *decoder) Decode(r *ring.Record) error {
	switch {
	case r.Lines() != 1:
		d.session.Refuse()
	case r.Type() == TypeEvent:
		return d.event(ring.As[Event](r))
	case r.Type() == TypeCoverage:
		d.describe(ring.As[Coverage](r))
	default:
		d.session.Refuse()
	}
	return nil
}

func (d *decoder) event(e *Event) error {
	if !sound(e) {
		d.session.Refuse()
		return nil
	}
	d.arrived++
	d.pairs.take(e)
	if len(d.pairs.done) >= batchSpans {
		return d.Flush()
	}
	return nil
}

// sound reports whether a payload can have written the event.
func sound(e *Event) bool {
	switch what := eventKind(e.Event); {
	case what >= eventKinds:
		return false
	case what > allocEnd && e.Dispatch != 0, what != allocEnd && (e.SizeBytes != 0 || e.Slots != 0):
		return false
	}
	return e.TimeNS != 0 && kind.SoundTime(e.TimeNS) && e.SizeBytes <= kind.MostCount && e.Slots <= kind.MostCount
}

func (d *decoder) describe(c *Coverage) {
	if c.Events > uint32(eventKinds) || c.Buried > c.Events || d.described == mostDescribed {
		d.session.Refuse()
		return
	}
	d.coverage = append(d.coverage, *c)
	d.described++
}

// Flush writes the operations that are complete, or will not be.
func (d *decoder) Flush() error {
	coverage, done := d.coverage, d.pairs.done
	if len(coverage)+len(done) == 0 {
		return nil
	}
	d.coverage, d.pairs.done = d.coverage[:0], d.pairs.done[:0]
	return d.session.Write(len(done), func(w tracedb.KindWriter) error {
		for i := range coverage {
			if err := describe(w, &coverage[i]); err != nil {
				return err
			}
		}
		return Store(w, done)
	})
}

// Finish passes on the operations that are still open: the session has ended.
func (d *decoder) Finish() { d.pairs.finish() }

// Arrived returns how many events have arrived; all of them have times.
func (d *decoder) Arrived() (timed, untimed uint64) { return d.arrived, 0 }
