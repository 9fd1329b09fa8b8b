package session

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// createTrace makes the trace. A flight recorder makes its own.
func (g *group) createTrace() error {
	if g.o.Flight != nil {
		return nil
	}
	db, err := tracedb.Make(g.Place)
	if err != nil {
		return failure.Explain("trace", g.o.PID, err, failure.Untouched)
	}
	g.db = db
	g.o.Watch.note(db)
	if g.Place.Extends && g.isFull() {
		return errors.Join(failure.Explain("trace", g.o.PID, fmt.Errorf("%s: %w", g.Place.Path, failure.ErrFull), failure.Untouched), db.Discard())
	}
	if err := testpoint.Pass(testpoint.Created); err != nil {
		return errors.Join(failure.Explain("trace", g.o.PID, err, failure.Untouched), db.Discard())
	}
	return nil
}

// discard removes an empty file; it leaves a file to extend unchanged.
func (g *group) discard() error {
	if g.db == nil {
		return nil
	}
	return g.db.Discard()
}

// path returns the path of the trace; "": a flight recorder's have their own.
func (g *group) path() string {
	if g.db == nil {
		return ""
	}
	return g.db.Path()
}

// sizeBytes returns the size of the trace, or of what a flight recorder keeps.
func (g *group) sizeBytes() uint64 {
	if g.db == nil {
		return g.flight.SizeBytes()
	}
	return g.db.SizeBytes()
}

func (g *group) beginCommon() error {
	if g.db == nil {
		return nil
	}
	return g.db.BeginCommon(g.startNS)
}

func (g *group) endCommon() error {
	if g.db == nil {
		return nil
	}
	return g.db.EndCommon(g.endNS)
}

// flightHost returns what flight recorders need of the group.
func (g *group) flightHost() flight.GroupHost {
	maker := partMaker{&g.o, g.privileges, g.ui}
	return flight.GroupHost{Create: maker.create, Written: maker.note, Targets: g.flightTargets}
}
