// Package kind describes the kinds of record that a session can record in addition to kernel
// dispatches. A kind is a folder below this one, a folder below payload/src/kinds, and a
// line in each of the two lists: package all, and kinds.def (docs/adding-a-kind.md).
//
// Dispatches are not a Kind: there are millions a second, and an interface call for each would
// be too slow on the way from the ring to the trace and into a report.
package kind

import (
	"cmp"
	"math"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Kind is one kind of record. A nil function means that the kind does not support it.
type Kind struct {
	ID    ring.Kind
	Thing string // what one record is for people: memory copy
	Event string // what one exported event is; "": as Thing
	Flag  string // the command line's flag that turns it on
	Usage string // of the flag

	Schema string // SQL of its tables and views
	Tables []string

	// Calls are the rows of the view rocpd_api that the kind's rows make; without SQL: none.
	Calls tracedb.ShownCalls

	// Describes are the types of the records that say what the session can record of the kind. A flight
	// recorder keeps the last ones of each.
	Describes []ring.Type

	// NewDecoder returns a decoder for the kind's records of one session.
	NewDecoder func(Session) Decoder

	// Read returns the kind's section of a report; nil: the trace does not have the kind.
	Read func(*Reading) (*Section, error)
	CSV  []Table // of Section.Value

	Export Export
}

// EventThing returns what one exported event is for people.
func (k *Kind) EventThing() string { return cmp.Or(k.Event, k.Thing) }

// Decoder decodes the records of one kind of one session. One goroutine calls it.
//
// The target can write the records: a Decoder checks every field, and refuses a record with an
// impossible one (Session.Refuse). It returns only errors of the trace.
type Decoder interface {
	// Decode decodes one record of the kind's types. The record is valid during the call.
	Decode(*ring.Record) error
	// Flush writes the buffered records.
	Flush() error
	// Arrived returns how many records have arrived, with and without times.
	Arrived() (timed, untimed uint64)
}

// Finisher is a Decoder that holds items whose end has not come.
type Finisher interface {
	// Finish is called when no more records come. Flush writes the items then.
	Finish()
}

// Session is the interface of a session to its Decoders.
type Session interface {
	// Agent returns the id of an agent, whose definition may arrive later.
	Agent(id uint32) uint32
	// Refuse counts a record that no payload writes.
	Refuse()
	// Write calls write inside the trace's open transaction. records is how many it adds.
	Write(records int, write func(tracedb.KindWriter) error) error
}

// MostCount bounds counts in a record: sums of hostile ones must not overflow.
const MostCount = 1 << 48

// SoundTime reports whether a time in ns is one that SQLite can hold and a clock can show.
func SoundTime(ns uint64) bool { return ns <= math.MaxInt64/2 }
