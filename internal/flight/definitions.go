package flight

import (
	"bytes"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

const (
	mostQueues      = 1 << 16
	mostDefinitions = 64 << 20 // bytes, from which on old launches are dropped
	// mostLaunches is more than twice as many as a payload knows at a time: older ones are not used any more.
	mostLaunches     = 1 << 17
	mostCodeObjects  = 1 << 16
	mostDescriptions = 16 // of one type
)

// definitions are the records to which others refer: agents, queues, names, launches, code objects,
// and those that describe what a kind can record. They only grow, so that a part of a session can use
// what was there at its end, until compact makes them new.
type definitions struct {
	log       []byte
	compactAt int
	describes map[ring.Type]bool
}

func newDefinitions(kinds []*kind.Kind) *definitions {
	d := &definitions{compactAt: mostDefinitions, describes: map[ring.Type]bool{}}
	for _, k := range kinds {
		for _, t := range k.Describes {
			d.describes[t] = true
		}
	}
	return d
}

// add keeps a record, and reports whether it is a definition.
func (d *definitions) add(r *ring.Record) bool {
	if !d.has(r.Type()) {
		return false
	}
	d.log = r.AppendTo(d.log)
	if len(d.log) > d.compactAt {
		d.compact()
	}
	return true
}

func (d *definitions) has(t ring.Type) bool {
	switch t {
	case ring.TypeAgent, ring.TypeQueue, ring.TypeLaunch, ring.TypeCodeObject, ring.TypeString, ring.TypeUnavailable:
		return true
	}
	return d.describes[t]
}

// mostOf returns how many definitions of a type are kept: the last ones.
func (d *definitions) mostOf(t ring.Type) int {
	switch {
	case t == ring.TypeLaunch:
		return mostLaunches
	case t == ring.TypeCodeObject:
		return mostCodeObjects
	case d.describes[t]:
		return mostDescriptions
	}
	return mostQueues // of agents, queues and names a collector takes no more
}

// compact drops the oldest definitions of the types of which there are too many.
func (d *definitions) compact() {
	var r ring.Record
	n := map[ring.Type]int{}
	for log := d.log; len(log) > 0; {
		log = r.Load(log)
		n[r.Type()]++
	}
	kept := make([]byte, 0, len(d.log)/2)
	for log := d.log; len(log) > 0; {
		log = r.Load(log)
		if n[r.Type()] <= d.mostOf(r.Type()) {
			kept = r.AppendTo(kept)
		}
		n[r.Type()]--
	}
	d.log, d.compactAt = bytes.Clone(kept), max(mostDefinitions, 2*len(kept))
}
