package calls

import (
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const batchCalls = 1024

// mostFunctions bounds the counts of a coverage record.
const mostFunctions = 1 << 20

// decoder decodes the calls of one session and kind.
type decoder struct {
	session  kind.Session
	store    store
	batch    []Call
	coverage *Coverage // the last one that is not written yet
	timed    uint64
}

func (a *api) newDecoder(s kind.Session) kind.Decoder {
	return &decoder{session: s, store: newStore(a.id), batch: make([]Call, 0, batchCalls)}
}

// Decode decodes a call, or what is intercepted.
func (d *decoder) Decode(r *ring.Record) error {
	switch id := d.store.id; {
	case r.Type() == id.Type(typeCall) && r.Lines() == 2:
		return d.call(ring.As[Call](r))
	case r.Type() == id.Type(typeCoverage) && r.Lines() == 1:
		d.cover(ring.As[Coverage](r))
	default:
		d.session.Refuse()
	}
	return nil
}

func (d *decoder) call(c *Call) error {
	if !d.store.sound(c) {
		d.session.Refuse()
		return nil
	}
	d.timed++
	d.batch = append(d.batch, *c)
	if len(d.batch) == cap(d.batch) {
		return d.Flush()
	}
	return nil
}

// sound reports whether a payload can have written the call.
func (s *store) sound(c *Call) bool {
	return int(c.Function) < len(s.known) && s.known[c.Function].Kind == s.id &&
		c.StartNS != 0 && c.EndNS >= c.StartNS && kind.SoundTime(c.EndNS) &&
		c.Flags&^HasOut == 0 && c.StackWords <= stackWords
}

func (d *decoder) cover(c *Coverage) {
	if Way(c.Way) >= WayCount || max(c.Functions, c.Excluded, c.Omitted, c.Unknown, c.Modules, c.Entries, c.Dropped) > mostFunctions || c.Hooked > c.Functions {
		d.session.Refuse()
		return
	}
	last := *c
	d.coverage = &last
}

// Flush writes the buffered records.
func (d *decoder) Flush() error {
	if len(d.batch) == 0 && d.coverage == nil {
		return nil
	}
	batch, coverage := d.batch, d.coverage
	d.batch, d.coverage = d.batch[:0], nil
	return d.session.Write(len(batch)+1, func(w tracedb.KindWriter) error {
		if coverage != nil {
			if err := d.store.cover(w, coverage); err != nil {
				return err
			}
		}
		return d.store.calls(w, batch)
	})
}

// Arrived returns how many calls have arrived; all of them have times.
func (d *decoder) Arrived() (timed, untimed uint64) { return d.timed, 0 }
