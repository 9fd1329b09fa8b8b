package cputrace

// Frame is a place in code. Ids are a recording's own, and begin with 1.
type Frame struct {
	ID         uint32
	Kind       int
	Name, File string
	Line       int    // 0: not known
	Offset     uint64 // native: in the ELF file's addresses
	HasOffset  bool
	Object     string // native: the ELF file; "": not known
}

// Stack is a node of the tree of stacks.
type Stack struct {
	ID, Parent, Frame uint32 // Parent 0: the outermost frame
	Cut               bool
}

// Sample is what a thread was at when a clock ticked.
type Sample struct {
	TID       uint32 // in the process's pid namespace
	TimeNS    uint64
	Clock     int
	State     int
	Processor int    // -1: none
	Stack     uint32 // 0: not known
}

// Wait is a time in which a thread did not run.
type Wait struct {
	TID                  uint32 // in the process's pid namespace
	OutNS, WokenNS, InNS uint64 // 0: not known
	State                uint32
	Syscall              int // -1: none
	Arguments            [2]uint64
	WakerTID             uint32 // a thread of this process, in its namespace; 0: none of it
	OtherPID, OtherTID   uint32 // a thread of another process, in its namespace if that is observed, too; 0: none
	Stack                uint32 // 0: not known
}

// Short are a thread's waits that are only counted.
type Short struct {
	TID       uint32
	Waits, NS uint64
}

// Batch is rows to be written together. Stacks refer to frames, and samples and waits to stacks, of this batch or of earlier ones.
type Batch struct {
	Frames  []Frame
	Stacks  []Stack
	Samples []Sample
	Waits   []Wait
	Shorts  []Short
}

// Rows returns how many rows the batch has.
func (b *Batch) Rows() int {
	return len(b.Frames) + len(b.Stacks) + len(b.Samples) + len(b.Waits) + len(b.Shorts)
}

// Window is a time in which threads are observed.
type Window struct {
	BegunNS       uint64
	Method        string
	CPUHz, WallHz int
	Scheduling    bool
	LeastWaitNS   uint64
	Locks         []Lock // at most MostLocks
}

// Lock is a lock of the process, by where it is in its memory.
type Lock struct {
	Kind           int
	Address, Bytes uint64
}

// MostLocks limits the locks of a window.
const MostLocks = 256

// Loss is a number of events that are missing.
type Loss struct {
	Cause  string
	Events uint64
}
