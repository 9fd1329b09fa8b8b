package collector

import (
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// ofKind is what the decoders of kinds see of a collector.
type ofKind struct{ c *Collector }

func (k ofKind) Agent(id uint32) uint32 { return k.c.knownAgent(id) }

func (k ofKind) Refuse() { k.c.tally.refused++ }

func (k ofKind) Write(records int, write func(tracedb.KindWriter) error) error {
	return k.c.sink.Kind(records, write)
}

// decoderOf returns what takes records of a type; nil: the frame's own, or not known.
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

// settleKinds settles the accounts of the kinds that were recorded. Where the payload's own
// account is missing it is not known how many there were.
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
