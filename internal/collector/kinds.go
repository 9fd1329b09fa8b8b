package collector

import (
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// ofKind is the interface of a collector to the decoders of kinds.
type ofKind struct{ c *Collector }

func (k ofKind) Agent(id uint32) uint32 { return k.c.knownAgent(id) }

func (k ofKind) Refuse() { k.c.tally.refused++ }

func (k ofKind) Write(records int, write func(tracedb.KindWriter) error) error {
	return k.c.sink.Kind(records, write)
}

// decoderOf returns the decoder for records of a type; nil for the types common to all
// kinds, and for unknown types.
func (c *Collector) decoderOf(t ring.Type) kind.Decoder {
	if k, of := t.Kind(); of && k < ring.KindsMax {
		return c.decoders[k]
	}
	return nil
}

func (c *Collector) flushKinds() error {
	var errs []error
	for _, d := range c.decoders {
		if d != nil {
			errs = append(errs, d.Flush())
		}
	}
	return errors.Join(errs...)
}

// finishKinds writes what the decoders hold: no more records come.
func (c *Collector) finishKinds() error {
	for _, d := range c.decoders {
		if f, holds := d.(kind.Finisher); holds {
			f.Finish()
		}
	}
	return c.flushKinds()
}

// settleKinds closes the accounts of the recorded kinds. If the payload's own account is
// missing, the number of items is unknown.
func (c *Collector) settleKinds() (all []tracedb.KindCoverage) {
	for id, d := range c.decoders {
		if d == nil {
			continue
		}
		k := tracedb.KindCoverage{Kind: ring.Kind(id).String()}
		k.Timed, k.Untimed = d.Arrived()
		arrived := k.Timed + k.Untimed
		told := c.accounts[id]
		if told == nil && arrived == 0 {
			continue
		}
		if k.Begun = arrived; told != nil {
			k.Begun = told.Begun
		}
		k.Unexplained = int64(k.Begun) - int64(arrived)
		all = append(all, k)
	}
	return all
}
