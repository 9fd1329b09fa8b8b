// Package stuck tells what the queues and threads of a process wait for. It only reads: it attaches to
// nothing, stops no thread, and puts nothing into the process.
package stuck

import (
	"slices"
	"time"
)

// Report is what was found in one or more processes. Its JSON form is stable (docs/json.md). The
// processes choose its texts: sanitize them before printing.
type Report struct {
	Version    string       `json:"version"`
	Watched    float64      `json:"watched"` // seconds between the two looks, as asked for
	Processes  []*Process   `json:"processes"`
	Collective []Collective `json:"collectives"`
}

// Process is one process.
type Process struct {
	PID     int      `json:"pid"`
	Command string   `json:"command"`
	Rank    *int     `json:"rank,omitempty"`
	Hidden  string   `json:"hidden,omitempty"`  // why it could not be read
	Payload string   `json:"payload,omitempty"` // state of a payload of rtl-attach
	Watched float64  `json:"watched"`           // seconds between the two looks at it
	Search  Search   `json:"search"`
	Python  *Python  `json:"python,omitempty"` // its interpreter, if it can be read
	Queues  []Queue  `json:"queues"`
	Threads []Thread `json:"threads"`
	Unseen  []string `json:"unseen"` // what could not be seen
}

// Queue is an AQL queue of the HSA runtime, at the second look.
type Queue struct {
	ID      uint64   `json:"id"` // the runtime's
	Address uint64   `json:"address"`
	GPU     *int     `json:"gpu,omitempty"`    // the driver's number, if it can be told
	GPUID   uint32   `json:"gpu_id,omitempty"` // the driver's id, if it can be told
	Slots   uint32   `json:"slots"`
	Read    uint64   `json:"read_index"`
	Write   uint64   `json:"write_index"`
	Passed  *uint64  `json:"passed_index,omitempty"` // of a queue that rtl-attach records: below it, packets have been passed to the GPU
	State   State    `json:"state"`
	Moved   bool     `json:"moved"`             // the read index has moved between the looks
	Packet  *Packet  `json:"packet,omitempty"`  // at the read index, if that is below the write index
	Running []Packet `json:"running,omitempty"` // packets that the GPU has taken, whose completion signal is not 0

	Submitters []int `json:"submitters,omitempty"` // threads in a function that submits, whose frames of HIP and HSA refer to the queue or to a signal of its packets
}

// State is what a queue does.
type State string

// The states.
const (
	StateMoves       State = "moves"       // the GPU has consumed packets between the looks
	StateIdle        State = "idle"        // all packets are consumed, and none is known to run
	StateRunning     State = "running"     // all packets are consumed; some have not signalled their completion
	StateUnpublished State = "unpublished" // the packet at the read index was claimed, and not written
	StateSignal      State = "signal"      // a barrier packet waits for signals
	StateBehind      State = "behind"      // the packet has the barrier bit, and earlier ones have not signalled their completion
	StateAtGPU       State = "at-gpu"      // the packet is complete: it runs, or the GPU does not process the queue
	StateUnreadable  State = "unreadable"  // the ring cannot be read
	StateGone        State = "gone"        // destroyed between the looks, or not a queue any more
)

// Packet is a packet of a queue.
type Packet struct {
	Index        uint64    `json:"index"`
	Type         string    `json:"type"` // invalid, dispatch, barrier-and, barrier-or, barrier-value, agent, vendor, consumed, unknown
	Barrier      bool      `json:"barrier_bit"`
	Kernel       string    `json:"kernel,omitempty"`
	KernelObject uint64    `json:"kernel_object,omitempty"`
	Grid         []uint32  `json:"grid,omitempty"` // work-items
	Workgroup    []uint16  `json:"workgroup,omitempty"`
	Dependencies []*Signal `json:"dependencies,omitempty"`
	Condition    string    `json:"condition,omitempty"` // of a barrier-value packet, on its dependency's value
	Completion   *Signal   `json:"completion,omitempty"`
	Claim        *Claim    `json:"claim,omitempty"` // while rtl-attach records the queue

	unmet bool // the condition is not fulfilled
}

// Claim says which thread claimed a packet's slot, and when.
type Claim struct {
	TID   int      `json:"tid,omitempty"` // 0: not known. Of a thread that has ended, the id in the process's own pid namespace
	Name  string   `json:"name,omitempty"`
	Ended bool     `json:"ended,omitempty"` // there is no such thread any more
	Age   *float64 `json:"seconds_ago,omitempty"`
}

// Signal is an HSA signal at the second look.
type Signal struct {
	Handle  uint64    `json:"handle"`
	Valid   bool      `json:"valid"` // there is a signal at this address
	Value   int64     `json:"value"`
	EventID uint32    `json:"event_id,omitempty"`
	By      []Pending `json:"completes,omitempty"` // the packets that would decrement it
	Waiters []int     `json:"waiters,omitempty"`   // threads whose frames of HIP and HSA, or whose wait in the driver, refer to it
}

// Pending is a packet that has not completed.
type Pending struct {
	Queue uint64 `json:"queue"`
	Index uint64 `json:"index"`
}

// Thread is a thread of a process, at the second look.
type Thread struct {
	TID      int      `json:"tid"`
	Name     string   `json:"name"`
	State    string   `json:"state"`                  // R, S, D, T, …
	Same     bool     `json:"same"`                   // it was in the same wait at the first look
	Asleep   float64  `json:"asleep,omitempty"`       // seconds for which, at least, it has not run; 0: not known to be longer than it was watched
	Call     string   `json:"call,omitempty"`         // the system call
	Channel  string   `json:"wait_channel,omitempty"` // where it sleeps in the kernel
	Futex    uint64   `json:"futex,omitempty"`
	Holder   int      `json:"mutex_holder,omitempty"` // the thread that holds the mutex it waits for
	Signals  []uint64 `json:"signals,omitempty"`      // to which its frames of HIP and HSA, or its wait in the driver, refer
	Queues   []uint64 `json:"queues,omitempty"`       // ids of those that are not idle, to which its frames of HIP and HSA refer
	Within   string   `json:"within,omitempty"`       // the outermost function of HIP, HSA or RCCL
	Callback string   `json:"callback,omitempty"`     // the program's function that HIP, HSA or RCCL has called in it, and that has not returned
	Stack    []string `json:"stack,omitempty"`        // innermost first
	StackErr string   `json:"stack_error,omitempty"`  // why it is not complete
	Unsure   bool     `json:"stack_unsure,omitempty"` // a frame was searched for
	Python   []Call   `json:"python,omitempty"`       // its frames of Python, innermost first, also those that are in Stack
	GIL      string   `json:"gil,omitempty"`          // "holds" or "waits"
}

// Call is a frame of Python.
type Call struct {
	Function string `json:"function"` // qualified name
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"`
}

// Python is the interpreter of a process.
type Python struct {
	Version string `json:"version"`
	Locks   []GIL  `json:"gil"` // the main interpreter's first
}

// GIL is an interpreter's lock at the second look.
type GIL struct {
	Locked  bool  `json:"locked"`
	Holder  int   `json:"holder,omitempty"`  // the thread that has it
	Waiters []int `json:"waiters,omitempty"` // the threads that wait for it
}

// Collective is a collective operation in which some of the processes are.
type Collective struct {
	Name    string `json:"name"`    // of the kernel or of the function
	Inside  []int  `json:"inside"`  // pids
	Outside []int  `json:"outside"` // pids of the other processes that were read
}

// stands reports whether a queue is neither idle nor moving.
func (q *Queue) stands() bool {
	return q.State != StateMoves && q.State != StateIdle && q.State != StateGone
}

// Blocked reports whether something of the process stands still.
func (p *Process) Blocked() bool {
	return slices.ContainsFunc(p.Queues, func(q Queue) bool { return q.stands() })
}

func seconds(d time.Duration) float64 { return d.Seconds() }
