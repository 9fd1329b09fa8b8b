package ptrace

import "golang.org/x/sys/unix"

// Kind says what a wait status of a seized thread means (ptrace(2)).
type Kind int

const (
	Exited      Kind = iota // the thread has ended
	Interrupted             // PTRACE_INTERRUPT's stop: the one we asked for
	GroupStop               // the process is stopped by SIGSTOP, SIGTSTP, ...
	SignalStop              // a signal is about to be delivered
	EventStop               // any other ptrace event or a syscall stop
)

// Stop is a classified wait status.
type Stop struct {
	Kind   Kind
	Signal unix.Signal // SignalStop: to be passed on; GroupStop: what stopped it
}

// syscallStop is what PTRACE_O_TRACESYSGOOD makes of a syscall stop.
const syscallStop = unix.SIGTRAP | 0x80

// Syscall reports whether the stop is at a syscall's entry or exit.
func (s Stop) Syscall() bool { return s.Kind == EventStop && s.Signal == syscallStop }

// Classify reads a wait status. It is pure.
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
