// Package kind describes kinds of record: what a session can record beside kernel
// dispatches. A kind is a folder below this one, a folder below payload/src/kinds, and a
// line in each of the two lists: package all, and kinds.def (docs/adding-a-kind.md).
//
// Dispatches are no Kind: there are millions a second, and each goes from the ring to the
// trace and into a report without a call through an interface.
package kind

import (
	"math"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A Kind is one kind of record. The zero values of its functions mean that it has nothing
// to give there.
type Kind struct {
	ID    ring.Kind
	Thing string // what one record is for people: memory copy
	Flag  string // of the command line, which turns it on
	Usage string // of the flag

	Schema string // SQL of its tables and views
	Tables []string

	// NewDecoder returns what takes the kind's records of one session from the ring.
	NewDecoder func(Session) Decoder

	// Read returns what a report says of the kind; nil: the trace has nothing of it.
	Read func(*Reading) (*Section, error)
	CSV  []Table // of Section.Value

	Export Export
}

// A Decoder takes the records of one kind of one session. One goroutine calls it.
//
// The target can write what it gets: it checks every field, and refuses a record that has
// one that cannot be (Session.Refuse). An error is the trace's.
type Decoder interface {
	// Decode takes one record of the kind's types. It is valid during the call.
	Decode(*ring.Record) error
	// Flush hands over what was held back to be written together.
	Flush() error
	// Arrived returns how many records came so far, with times and without.
	Arrived() (timed, untimed uint64)
}

// A Session is what a Decoder knows of the session whose records it takes.
type Session interface {
	// Agent returns the id of an agent, and remembers that one may yet be defined.
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
