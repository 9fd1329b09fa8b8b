package ptrace

import "golang.org/x/sys/unix"

// Kind is the meaning of a seized thread's wait status (ptrace(2)).
type Kind int

// The kinds of stop.
const (
	Exited      Kind = iota // the thread has ended
	Interrupted             // the stop that PTRACE_INTERRUPT requested
	GroupStop               // SIGSTOP, SIGTSTP, ... has stopped the process
	SignalStop              // a signal is about to be delivered
	EventStop               // any other ptrace event or a syscall stop
)

// Stop is a classified wait status.
type Stop struct {
	Kind   Kind
	Signal unix.Signal // SignalStop: the signal to deliver; GroupStop: the signal that stopped the process
}

// syscallStop is the signal of a syscall stop under PTRACE_O_TRACESYSGOOD.
const syscallStop = unix.SIGTRAP | 0x80

// Syscall reports whether s is the stop at the entry or exit of a syscall.
func (s Stop) Syscall() bool { return s.Kind == EventStop && s.Signal == syscallStop }

// Classify decodes a wait status. It is pure.
func Classify(status uint32) Stop {
	ws := unix.WaitStatus(status)
	if !ws.Stopped() {
		return Stop{Kind: Exited}
	}
	// WaitStatus.StopSignal drops bit 7, which marks a syscall stop.
	sig, event := unix.Signal(status>>8&0xff), status>>16
	switch {
	case event == unix.PTRACE_EVENT_STOP && sig == unix.SIGTRAP:
		return Stop{Kind: Interrupted}
	case event == unix.PTRACE_EVENT_STOP:
		return Stop{Kind: GroupStop, Signal: sig}
	case event != 0 || sig == syscallStop:
		return Stop{Kind: EventStop, Signal: sig}
	}
	return Stop{Kind: SignalStop, Signal: sig}
}
