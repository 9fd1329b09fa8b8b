// Package tracedb writes and reads trace files: SQLite, laid out in schema.sql.
//
// A DB is one file, a Session is one recording of one process in it. Several
// goroutines may write sessions at once, one each. DB commits everything at least
// every second, so that a trace is readable while it is recorded, and after its
// recorder was killed.
package tracedb

// The producer of a session assigns the ids in these rows. It defines an id before
// it uses it. An id or a time of 0 means "unknown".

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

// Coverage is the account of one queue.
type Coverage struct {
	Queue       uint32
	Windows     uint64
	WindowsOpen uint64 // never closed
	Dispatches  uint64 // published in closed windows
	Timed       uint64
	Untimed     uint64 // without packets published after the detach
	Filtered    uint64 // kernels in Filtered
	Unexplained int64  // dispatches that the payload published and no record accounts for
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

// Unavailable is a kind of record that was asked for and cannot be recorded.
type Unavailable struct {
	Kind   string // memory-copy, …
	Reason string
}

// Pause is a stop of one thread of the target.
type Pause struct {
	TID        uint32
	StartNS    uint64
	DurationNS uint64
	Purpose    string
}

// Counter is a counter of the payload or of the pause meter.
type Counter struct {
	Name  string
	Value uint64
}

// Counters that the summary uses.
const (
	CounterQueuesSeen     = "queues_seen"
	CounterQueuesForeign  = "queues_foreign"  // of other tools, or without hardware: never recorded
	CounterQueuesExcluded = "queues_excluded" // of GPUs that the recording's --gpu leaves out: untouched
	CounterRawClaims      = "raw_claims"      // on all queues, also on those that were never recorded

	// The stops in rtl_pause by the kernel's clock, in nanoseconds.
	CounterSchedulerStops = "scheduler_stops"
	CounterSchedulerTotal = "scheduler_total_ns"
	CounterSchedulerWorst = "scheduler_worst_ns"
)

// Reasons that the recorder itself has to end a session.
const (
	EndElapsed     = "duration elapsed"
	EndInterrupted = "interrupted"
	EndSizeLimit   = "size limit reached"
	EndRequested   = "detached by rtl-attach detach"
	EndStopped     = "stopped by a command"
	EndTriggered   = "written by a trigger of the flight recorder"
	EndWindows     = "most windows of one trace"
	EndPeriod      = "the window of the schedule is over"
	EndSchedule    = "all windows of the schedule are over"
	EndDiskFull    = "disk full"
	EndWriteFailed = "writing the trace failed"
)

// Causes of losses in the recorder itself.
const (
	CauseDiskFull    = "the disk was full: records not written"
	CauseWriteFailed = "writing the trace failed: records not written"
)

// Mark is the time up to which the records of a session are complete.
type Mark struct {
	UntilNS  uint64     // the session has each kernel that ended before it, or counts it as lost or untimed
	Coverage []Coverage // the queues whose accounts have changed; not final
}

// End is how a session ended.
type End struct {
	Reason      string
	ArmedNS     uint64
	DetachedNS  uint64
	WindowEndNS uint64 // of the declared window
	UntilNS     uint64 // see Mark
	Coverage    []Coverage
	Kinds       []KindCoverage
}

// KindCoverage is the account of a kind of record other than dispatches in one session:
// Begun is the sum of Timed, Untimed and Unexplained.
type KindCoverage struct {
	Kind        string // memory-copy, ...
	Begun       uint64 // while recording, as counted by the payload
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

// SessionInfo describes a session at its begin.
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
	BegunNS     uint64 // 0: now
	WindowNS    uint64 // begin of the declared window; 0: ArmedNS
	Recorder    Recorder

	// ThreadName returns a thread's name; "": not known. The session calls it once for
	// each thread, with its first record. Nil: threads have no names.
	ThreadName func(tid uint32) string

	// Guard can stop the session's writes; nil: nothing stops them.
	Guard *Guard
}
