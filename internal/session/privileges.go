package session

import "golang.org/x/sys/unix"

// lower lays our privileges down for the time in which records are collected:
// a control block and a ring that are mapped, and a file that is open, need none.
func (r *recording) lower() {
	// Collecting changes its niceness up and down (background.go).
	const nice = 20 - niceFinished // as RLIMIT_NICE counts
	_ = unix.Setrlimit(unix.RLIMIT_NICE, &unix.Rlimit{Cur: nice, Max: nice})
	if err := r.privileges.Lower(); err != nil {
		r.ui.Debug("privileges stay: " + firstLine(err))
	}
}

// raise takes them back for what needs them: ptrace, another session's ring,
// the end of the trace in a folder that is not ours.
func (r *recording) raise() {
	if err := r.privileges.Raise(); err != nil {
		r.ui.Warn("cannot take privileges back: " + firstLine(err))
	}
}
