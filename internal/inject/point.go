package inject

// Point names a moment of an injection at which a test can make it fail.
type Point string

const (
	PointResolved  Point = "resolved"    // nothing stopped yet
	PointSeized    Point = "seized"      // stop 1: before the interrupt
	PointStopped   Point = "stopped"     // stop 1: stopped, nothing changed
	PointFramed    Point = "framed"      // stop 1: the chain lies on the stack
	PointSet       Point = "set"         // stop 1: registers set, mask not yet
	PointMasked    Point = "masked"      // stop 1: before the detach
	PointMapped    Point = "mapped"      // the mappings are there, empty
	PointWritten   Point = "written"     // code and data are there
	PointSeized2   Point = "seized-2"    // the same for stop 2
	PointStopped2  Point = "stopped-2"   //
	PointFramed2   Point = "framed-2"    //
	PointSet2      Point = "set-2"       //
	PointMasked2   Point = "masked-2"    //
	PointCloned    Point = "cloned"      // the raw thread is on its way
	PointReady     Point = "ready"       // the pthread serves commands
	PointDelivered Point = "delivered"   // the payload's bytes are in its file
	PointLoaded    Point = "loaded"      // dlopen is done
	PointResolvedE Point = "entry-found" // dlsym is done
	PointCalled    Point = "called"      // the entry has returned
	PointLeft      Point = "left"        // the pthread was told to leave
)

// Points lists all of them in the order in which they are passed.
var Points = []Point{
	PointResolved, PointSeized, PointStopped, PointFramed, PointSet, PointMasked,
	PointMapped, PointWritten, PointSeized2, PointStopped2, PointFramed2, PointSet2, PointMasked2,
	PointCloned, PointReady, PointDelivered, PointLoaded, PointResolvedE, PointCalled, PointLeft,
}

// Fault is called at every point: an error makes the injection fail there. It
// is nil but in tests.
var Fault func(Point) error

func at(p Point) error {
	if Fault == nil {
		return nil
	}
	return Fault(p)
}
