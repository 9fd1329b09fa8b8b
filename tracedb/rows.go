// Package tracedb writes and reads trace files: SQLite, laid out in schema.sql.
//
// A DB is one file, a Session one recording of one process in it. Several
// sessions may be written at once, each by its own goroutine. Everything is
// committed at least every second, so that a killed recorder leaves a readable
// file, and can be read meanwhile.
package tracedb

// The ids in these rows are those that the producer of a session gave out. An
// id is defined before it is used; 0 is "unknown" everywhere. Times of 0 are
// unknown as well.

// Agent is a GPU as one process sees it.
type Agent struct {
	ID           uint32
	GPU          uint32 // ordinal in that process
	Name         string // such as gfx90a
	Product      string
	Handle       uint64
	DriverNode   uint32
	BDF          uint32
	PCIDomain    uint32 // of the BDF
	ComputeUnits uint32
}

// Queue is an HSA queue.
type Queue struct {
	ID          uint32
	Agent       uint32
	Address     uint64
	HSAID       uint64
	Doorbell    uint64
	SizePackets uint32
	Type        uint32
	Flags       uint32
}

// CodeObject is code loaded for an agent.
type CodeObject struct {
	ID            uint32
	Agent         uint32
	URI           string
	Executable    uint64
	LoadBase      uint64
	LoadSizeBytes uint64
}

// Launch is a kernel with its geometry.
type Launch struct {
	ID                  uint32
	Agent               uint32
	Symbol              string // as in the code object; empty: unresolved
	Grid                [3]uint32
	Workgroup           [3]uint16
	GroupSegmentBytes   uint32
	PrivateSegmentBytes uint32
	KernelObject        uint64
}

// Dispatch is a kernel that ran.
type Dispatch struct {
	StartNS  uint64
	EndNS    uint64
	SubmitNS uint64
	Index    uint64
	Queue    uint32
	Launch   uint32
	TID      uint32
	Flags    uint32
}

// Untimed is a run of packets without times.
type Untimed struct {
	Queue    uint32
	Launch   uint32
	TID      uint32
	Reason   uint32 // ring.Reason
	Index    uint64
	Packets  uint64
	SubmitNS uint64
}

// Window is a time in which a queue was recorded.
type Window struct {
	Queue        uint32
	OpenNS       uint64
	Index        uint64
	RawBefore    uint64
	QueuedBefore uint64 // packets in front of it that the GPU had not taken yet

	Closed     bool // what follows is known
	CloseNS    uint64
	EndIndex   uint64
	Dispatches uint64
	Others     uint64
	After      uint64
}

// Coverage is what was seen of one queue.
type Coverage struct {
	Queue       uint32
	Windows     uint64
	WindowsOpen uint64 // never closed
	Dispatches  uint64 // published in closed windows
	Timed       uint64
	Untimed     uint64 // without those published after the detach
	Unexplained int64  // what the payload published and nothing here accounts for
	Others      uint64
	After       uint64
	RawBefore   uint64
}

// Loss is a number of records that are missing, and why.
type Loss struct {
	Cause   string
	Records uint64
	FromNS  uint64
	UntilNS uint64
}

// Pause is a stop of one thread of the target.
type Pause struct {
	TID        uint32
	StartNS    uint64
	DurationNS uint64
	Purpose    string
}

// Counter is one of the payload's own counters, or of the meter of pauses.
type Counter struct {
	Name  string
	Value uint64
}

// The counters that a summary needs.
const (
	CounterQueuesSeen    = "queues_seen"
	CounterQueuesForeign = "queues_foreign" // of other tools, or without hardware: never recorded
	CounterRawClaims     = "raw_claims"     // on all queues, also on those that were never recorded

	// Of the stops that rtl_pause has, by the kernel's clock; nanoseconds.
	CounterSchedulerStops = "scheduler_stops"
	CounterSchedulerTotal = "scheduler_total_ns"
	CounterSchedulerWorst = "scheduler_worst_ns"
)

// Reasons for the end of a session that the recorder itself has.
const (
	EndElapsed     = "duration elapsed"
	EndInterrupted = "interrupted"
	EndSizeLimit   = "size limit reached"
	EndRequested   = "detached by rtl-attach detach"
	EndDiskFull    = "disk full"
	EndWriteFailed = "writing the trace failed"
)

// Causes of losses that the recorder itself has.
const (
	CauseDiskFull    = "the disk was full: records not written"
	CauseWriteFailed = "writing the trace failed: records not written"
)

// Mark says how far the records of a session are complete.
type Mark struct {
	UntilNS  uint64     // each kernel that ended before it was given to the session, or counted as lost or untimed
	Coverage []Coverage // of the queues whose account has changed; not final
}

// End closes a session.
type End struct {
	Reason      string
	ArmedNS     uint64
	DetachedNS  uint64
	WindowEndNS uint64 // of the declared window
	UntilNS     uint64 // see Mark
	Coverage    []Coverage
	Kinds       []KindCoverage
}

// KindCoverage is what was seen in a session of a kind of record beside dispatches: Begun
// is Timed, Untimed and Unexplained together.
type KindCoverage struct {
	Kind        string // memory-copy, ...
	Begun       uint64 // while recording, as the payload counted
	Timed       uint64
	Untimed     uint64
	Unexplained int64 // begun, and no record accounts for them; below 0: too many records
}

// Recorder is the process that records.
type Recorder struct {
	PID          uint32
	StartTicks   uint64
	PIDNamespace uint64 // inode
}

// SessionInfo is what is known when a session begins.
type SessionInfo struct {
	PID         uint32
	StartTicks  uint64
	Command     string
	Host        string
	ToolVersion string
	BuildID     []byte // of the payload
	Generation  uint32
	Rank        *int // as its launcher set it; nil: it has none
	ArmedNS     uint64
	Recorder    Recorder

	// ThreadName is asked once for each thread that dispatches, when its first record is
	// written; "": not known. Nil: threads have no names.
	ThreadName func(tid uint32) string

	// Guard can stop the session's writes; nil: nobody does.
	Guard *Guard
}
