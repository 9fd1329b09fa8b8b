// Package testpoint names the moments of a recording at which a test can act: pause the
// tool, kill it, or make it fail. In a release build nothing happens there. The payload's steps are in
// internal/faultpoints.
package testpoint

import "github.com/rtl-attach/rtl-attach/internal/ring"

// Point is a moment of a recording. internal/inject has the points of the injection.
type Point string

// Points of a recording, in their order; then the points that only some recordings pass.
const (
	Looked    Point = "looked"    // the checks are made, nothing is touched
	Created   Point = "created"   // the trace's file exists
	Taken     Point = "taken"     // this tool has the lock in the control block
	Attached  Point = "attached"  // the payload is active
	Recording Point = "recording" // the ring is mapped, records arrive
	Closing   Point = "closing"   // the window is over, the payload active
	Ending    Point = "ending"    // the detach command is sent
	Detached  Point = "detached"  // the payload is dormant
	Drained   Point = "drained"   // the last record has arrived
	Finished  Point = "finished"  // the trace is complete

	Ordered  Point = "ordered"       // with a resident payload: the attach command is sent
	Asked    Point = "asked"         // if the grace period needs a stop: before the stop
	Grace    Point = "grace-stopped" // the thread is stopped
	Stopping Point = "stopping"      // if another tool records: it was asked to finish
	Launched Point = "launched"      // run: the program has started
)

// All lists the points that every recording passes, in this order.
var All = []Point{
	Looked, Created, Taken, Attached, Recording,
	Closing, Ending, Detached, Drained, Finished,
}

// OfDetach lists the points of a detach from a session without a recorder.
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

// Sent passes the point of a command that was sent to the payload.
func Sent(c ring.Command) error {
	switch c {
	case ring.CommandReattach:
		return Pass(Ordered)
	case ring.CommandDetach:
		return Pass(Ending)
	}
	return nil
}
