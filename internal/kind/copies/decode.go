package copies

import (
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const batchCopies = 512

// decoder decodes the copies of one session.
type decoder struct {
	session        kind.Session
	batch          []Copy
	timed, untimed uint64
}

func newDecoder(s kind.Session) kind.Decoder {
	return &decoder{session: s, batch: make([]Copy, 0, batchCopies)}
}

// Decode decodes a copy.
func (d *decoder) Decode(r *ring.Record) error {
	if r.Type() != TypeCopy || r.Lines() != 1 {
		d.session.Refuse()
		return nil
	}
	c := *ring.As[Copy](r)
	if !sound(&c) {
		d.session.Refuse()
		return nil
	}
	c.From, c.To = d.session.Agent(c.From), d.session.Agent(c.To)
	if isTimed(&c) {
		d.timed++
	} else {
		c.StartNS, c.EndNS = 0, 0
		d.untimed++
	}
	d.batch = append(d.batch, c)
	if len(d.batch) == cap(d.batch) {
		return d.Flush()
	}
	return nil
}

func isTimed(c *Copy) bool { return ring.Reason(c.Reason) == ring.ReasonNone }

// sound reports whether a payload can have written the copy.
func sound(c *Copy) bool {
	switch {
	case Direction(c.Direction) >= DirectionCount, ring.Reason(c.Reason) >= ring.ReasonCount,
		c.Bytes > kind.MostCount, !kind.SoundTime(c.SubmitNS):
		return false
	case isTimed(c):
		return c.StartNS != 0 && c.EndNS >= c.StartNS && kind.SoundTime(c.EndNS)
	}
	return true
}

// Flush writes the buffered copies.
func (d *decoder) Flush() error {
	if len(d.batch) == 0 {
		return nil
	}
	batch := d.batch
	d.batch = d.batch[:0]
	return d.session.Write(len(batch), func(w tracedb.KindWriter) error { return Store(w, batch) })
}

// Arrived returns how many copies have arrived.
func (d *decoder) Arrived() (timed, untimed uint64) { return d.timed, d.untimed }
