// Package testpoint names the moments of a recording at which a test can act: pause the
// tool, kill it, or make it fail. In a release build nobody acts. The payload's steps are in
// internal/faultpoints.
package testpoint

import "github.com/rtl-attach/rtl-attach/internal/ring"

// A Point is a moment of a recording. Those of the injection are in internal/inject.
type Point string

// Points of a recording, in their order, and those that only some recordings pass.
const (
	Looked    Point = "looked"    // everything is known, nothing touched
	Created   Point = "created"   // the trace's file is there
	Taken     Point = "taken"     // the control block is ours
	Attached  Point = "attached"  // the payload is active
	Recording Point = "recording" // the ring is mapped, records come
	Closing   Point = "closing"   // the window is over, the payload active
	Ending    Point = "ending"    // the detach is commanded
	Detached  Point = "detached"  // the payload is dormant
	Drained   Point = "drained"   // the last record has come
	Finished  Point = "finished"  // the trace is whole

	Ordered  Point = "ordered"       // where a payload is resident: the attach is commanded
	Asked    Point = "asked"         // where its grace needs a thread stopped: not yet
	Grace    Point = "grace-stopped" // it is stopped
	Stopping Point = "stopping"      // where another tool records: it was asked to end that
)

// All lists the points that every recording passes, in this order.
var All = []Point{
	Looked, Created, Taken, Attached, Recording,
	Closing, Ending, Detached, Drained, Finished,
}

// OfDetach are passed by a detach from a session that has no recorder.
var OfDetach = []Point{Taken, Closing, Ending, Detached}

// Hook is called at every point: an error makes the recording fail there. It is nil
// except in tests.
var Hook func(Point) error

// Pass calls Hook, if there is one, and returns its error.
func Pass(p Point) error {
	if Hook == nil {
		return nil
	}
	return Hook(p)
}

// Sent passes the point that belongs to a command which was just sent to the payload.
func Sent(c ring.Command) error {
	switch c {
	case ring.CommandReattach:
		return Pass(Ordered)
	case ring.CommandDetach:
		return Pass(Ending)
	}
	return nil
}
