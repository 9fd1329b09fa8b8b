package session

import "github.com/rtl-attach/rtl-attach/internal/ring"

// Point names a moment of a recording at which a test can act; those of the
// injection are inject's.
type Point string

const (
	PointLooked    Point = "looked"    // everything is known, nothing touched
	PointCreated   Point = "created"   // the trace's file is there
	PointTaken     Point = "taken"     // the control block is ours
	PointAttached  Point = "attached"  // the payload is active
	PointRecording Point = "recording" // the ring is mapped, records come
	PointClosing   Point = "closing"   // the window is over, the payload active
	PointEnding    Point = "ending"    // the detach is commanded
	PointDetached  Point = "detached"  // the payload is dormant
	PointDrained   Point = "drained"   // the last record has come
	PointFinished  Point = "finished"  // the trace is whole

	PointOrdered  Point = "ordered"       // where a payload is resident: the attach is commanded
	PointAsked    Point = "asked"         // where its grace needs a thread stopped: not yet
	PointGrace    Point = "grace-stopped" // it is stopped
	PointStopping Point = "stopping"      // where another tool records: it was asked to end that
)

// Points lists those that every recording passes, in this order.
var Points = []Point{
	PointLooked, PointCreated, PointTaken, PointAttached, PointRecording,
	PointClosing, PointEnding, PointDetached, PointDrained, PointFinished,
}

// DetachPoints are passed by a detach from a session that has no recorder.
var DetachPoints = []Point{PointTaken, PointClosing, PointEnding, PointDetached}

// Passing is called at every point: an error makes the recording fail there. It
// is nil but in tests.
var Passing func(Point) error

func at(p Point) error {
	if Passing == nil {
		return nil
	}
	return Passing(p)
}

// sent is the point that a command on its way is.
func sent(c ring.Command) error {
	switch c {
	case ring.CommandReattach:
		return at(PointOrdered)
	case ring.CommandDetach:
		return at(PointEnding)
	}
	return nil
}
