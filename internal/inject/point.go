package inject

// Point names a moment of an injection at which a test can make it fail.
type Point string

// The points of an injection.
const (
	PointResolved  Point = "resolved"    // nothing stopped yet
	PointSeized    Point = "seized"      // stop 1: before the interrupt
	PointStopped   Point = "stopped"     // stop 1: stopped, nothing changed
	PointFramed    Point = "framed"      // stop 1: the chain is on the stack
	PointSet       Point = "set"         // stop 1: registers set, mask not yet
	PointMasked    Point = "masked"      // stop 1: before the detach
	PointMapped    Point = "mapped"      // the mappings exist, empty
	PointWritten   Point = "written"     // code and data are written
	PointSeized2   Point = "seized-2"    // the same for stop 2
	PointStopped2  Point = "stopped-2"   //
	PointFramed2   Point = "framed-2"    //
	PointSet2      Point = "set-2"       //
	PointMasked2   Point = "masked-2"    //
	PointCloned    Point = "cloned"      // the raw thread is created or about to be
	PointReady     Point = "ready"       // the bootstrap thread serves commands
	PointDelivered Point = "delivered"   // the payload's bytes are in its memfd
	PointLoaded    Point = "loaded"      // dlopen has returned
	PointResolvedE Point = "entry-found" // dlsym has returned
	PointCalled    Point = "called"      // the entry has returned
	PointLeft      Point = "left"        // the bootstrap thread got the command to end

	// While the thread is held over its calls.
	PointEntry     Point = "held-entry"      // stop 1: it enters a call
	PointExit      Point = "held-exit"       // stop 1: the call has returned
	PointUnmasked  Point = "held-unmasked"   // stop 1: it has its own mask again, not yet its registers
	PointBack      Point = "held-back"       // stop 1: it has its own registers again, not yet its wait
	PointEntry2    Point = "held-entry-2"    // the same for stop 2
	PointExit2     Point = "held-exit-2"     //
	PointUnmasked2 Point = "held-unmasked-2" //
	PointBack2     Point = "held-back-2"     //

	// While a failed injection unmaps its memory.
	PointSeized3   Point = "seized-3" // as in stop 1
	PointStopped3  Point = "stopped-3"
	PointFramed3   Point = "framed-3"
	PointSet3      Point = "set-3"
	PointMasked3   Point = "masked-3"
	PointEntry3    Point = "held-entry-3" // as in stop 1, while the thread is held
	PointExit3     Point = "held-exit-3"
	PointUnmasked3 Point = "held-unmasked-3"
	PointBack3     Point = "held-back-3"

	PointFilterSeized  Point = "filter-seized"  // stop to read the thread's seccomp filters: before the interrupt
	PointFilterStopped Point = "filter-stopped" // stopped, filters not read yet
	PointStaged        Point = "staged"         // the payload's file is in a directory of the target
)

// Points lists the points that every injection passes, in order.
var Points = []Point{
	PointResolved, PointSeized, PointStopped, PointFramed, PointSet, PointMasked,
	PointMapped, PointWritten, PointSeized2, PointStopped2, PointFramed2, PointSet2, PointMasked2,
	PointCloned, PointReady, PointDelivered, PointLoaded, PointResolvedE, PointCalled, PointLeft,
}

// HeldPoints are passed in addition if the thread is held, UndoPoints if an injection
// fails after it has mapped memory, HeldUndoPoints if both apply, and FilterPoints if
// threads have seccomp filters.
var (
	HeldPoints = []Point{
		PointEntry, PointExit, PointUnmasked, PointBack, PointEntry2, PointExit2, PointUnmasked2, PointBack2,
	}
	UndoPoints     = []Point{PointSeized3, PointStopped3, PointFramed3, PointSet3, PointMasked3}
	HeldUndoPoints = []Point{PointEntry3, PointExit3, PointUnmasked3, PointBack3}
	FilterPoints   = []Point{PointFilterSeized, PointFilterStopped}
)

// Fault, if not nil, is called at every point; if it returns an error, the injection
// fails there. Only tests set it.
var Fault func(Point) error

func at(p Point) error {
	if Fault == nil {
		return nil
	}
	return Fault(p)
}
