package allocations

import (
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const batchAllocations = 512

// decoder decodes the allocations and releases of one session.
type decoder struct {
	session kind.Session
	batch   []Allocation
	arrived uint64
}

func newDecoder(s kind.Session) kind.Decoder {
	return &decoder{session: s, batch: make([]Allocation, 0, batchAllocations)}
}

// Decode decodes an allocation or a release.
func (d *decoder) Decode(r *ring.Record) error {
	if r.Type() != TypeAllocation || r.Lines() != 1 {
		d.session.Refuse()
		return nil
	}
	a := *ring.As[Allocation](r)
	if !sound(&a) {
		d.session.Refuse()
		return nil
	}
	a.Agent = d.session.Agent(a.Agent)
	d.arrived++
	d.batch = append(d.batch, a)
	if len(d.batch) == cap(d.batch) {
		return d.Flush()
	}
	return nil
}

// sound reports whether a payload can have written the record. A call that failed may have
// asked for any size.
func sound(a *Allocation) bool {
	o := Operation(a.Operation)
	switch {
	case o >= OperationCount, a.Flags&^FlagAgentKnown != 0, a.Agent != 0 && a.Flags == 0, a.Pool == 0 && a.Flags != 0,
		a.StartNS == 0, a.EndNS < a.StartNS, !kind.SoundTime(a.EndNS):
		return false
	case o.isRelease():
		return a.SizeBytes == 0 && a.Pool == 0 && a.Flags == 0
	case a.Status != 0:
		return a.Address == 0
	}
	return a.SizeBytes <= kind.MostCount
}

// Flush writes the buffered records.
func (d *decoder) Flush() error {
	if len(d.batch) == 0 {
		return nil
	}
	batch := d.batch
	d.batch = d.batch[:0]
	return d.session.Write(len(batch), func(w tracedb.KindWriter) error { return Store(w, batch) })
}

// Arrived returns how many records have arrived; all of them have times.
func (d *decoder) Arrived() (timed, untimed uint64) { return d.arrived, 0 }
