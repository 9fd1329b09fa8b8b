package whyidle

import "github.com/rtl-attach/rtl-attach/tracedb"

// State is what a thread was doing.
type State int

// The states of a thread.
const (
	Running State = iota
	Ready         // could run, and had no processor
	Blocked
	Unobserved // when nothing, or nothing of this thread, was observed
	NotSampled // did not run, or ran for less than its samples show: waits were not recorded
)

// Waker is who woke a blocked thread. The zero Waker is not known: a timer, an interrupt.
type Waker struct {
	Thread   int64 // its row in rtl_thread; 0: not a thread of a process whose waits were recorded
	PID, TID int64 // of another process; 0: it is not
}

// Cause is what a thread did in a part of the time in which a GPU waited for it. Causes with equal
// values are one.
type Cause struct {
	Thread  int64 // its row in rtl_thread; tracedb.Null: not known
	State   State
	Stack   int64 // its row in rtl_cpu_stack; 0: not known
	Syscall int64 // in which it blocked; tracedb.Null: none
	Request int64 // of an ioctl
	GIL     bool  // it waited for Python's global interpreter lock, by the lock's address
	Waker   Waker
}

// Part is a cause with its time.
type Part struct {
	Cause
	NS        int64
	Times     int64 // blocked, ready: how often
	Samples   int64 // running: how many; the time is shared out by them
	Sampled   bool  // the time is shared out by samples: it is not exact
	Kernel    bool  // running: in the kernel
	Meanwhile []Meanwhile
}

// Meanwhile is what the waker of a blocked thread did while the thread was blocked.
type Meanwhile struct {
	State State
	Stack int64
	NS    int64
}

// GPU is the answer for one GPU.
type GPU struct {
	HostNS      int64 // the time of all questions, the sum of the parts
	Parts       []Part
	RunningNS   int64 // of it, its thread ran
	UnsampledNS int64 // of that, in pieces without a sample
	Samples     int64 // in which its thread ran
	LooseNS     int64 // in windows without scheduling, and with samples of running threads only: not in RunningNS
	ExactNS     int64 // of HostNS, in windows with scheduling: waits of LeastWaitNS and more are exact
	LeastWaitNS int64 // shorter waits count as running
	SampledNS   int64 // of HostNS, in windows without
	DroppedNS   int64 // causes that did not fit into the bounds: in Parts without a stack
}

// Answer is the answer for all GPUs.
type Answer struct {
	GPUs map[int64]*GPU
	Gaps []Gap // as Find was asked for
}

// Gap is a single gap, with all causes in it.
type Gap struct {
	GPU   int64
	Parts []Part
}

// cause returns the cause of the blocked part of a wait.
func (w *wait) cause() Cause {
	return Cause{Thread: w.thread, State: Blocked, Stack: w.stack, Syscall: w.syscall, Request: w.request, GIL: w.gil, Waker: w.waker()}
}

// waker returns who woke the thread of a wait. Timers and interrupts wake on any thread's behalf: the
// recorder leaves these out, and of a sleep with a time limit nobody else can wake the thread.
func (w *wait) waker() (by Waker) {
	if w.preempted || w.syscall == nanosleep || w.syscall == clockNanosleep {
		return by
	}
	if w.wakerThread != tracedb.Null && w.wakerThread != w.thread {
		return Waker{Thread: w.wakerThread}
	}
	if w.wakerThread == tracedb.Null && w.wakerPID > 0 {
		return Waker{PID: w.wakerPID, TID: w.wakerTID}
	}
	return by
}

// System calls on x86-64, by number.
const (
	ioctl          = 16
	futex          = 202
	nanosleep      = 35
	clockNanosleep = 230
)
