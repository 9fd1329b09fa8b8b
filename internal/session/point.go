package session

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
	PointDetached  Point = "detached"  // the payload is dormant
	PointDrained   Point = "drained"   // the last record has come
	PointFinished  Point = "finished"  // the trace is whole
)

// Points lists all of them in the order in which they are passed.
var Points = []Point{
	PointLooked, PointCreated, PointTaken, PointAttached, PointRecording,
	PointClosing, PointDetached, PointDrained, PointFinished,
}

// Passing is called at every point: an error makes the recording fail there. It
// is nil but in tests.
var Passing func(Point) error

func at(p Point) error {
	if Passing == nil {
		return nil
	}
	return Passing(p)
}
