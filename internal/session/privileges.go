package session

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

// rights are this process's privileges, which all of its recordings share: they
// are laid down while none of them needs any.
type rights struct {
	mu         sync.Mutex
	needed     int // by so many
	privileges privilege.Privileges
	meter      *meter // of pauses: it needs some
}

// newRights are those of a tool that makes one recording yet. Its meter has to be closed.
func newRights() *rights { return &rights{needed: 1, meter: newMeter()} }

func (r *rights) give() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needed--; r.needed > 0 {
		return nil
	}
	r.meter.close()
	return r.privileges.Lower()
}

func (r *rights) take() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needed++; r.needed > 1 {
		return nil
	}
	return r.privileges.Raise()
}

// lower lays our privileges down for the time in which records are collected:
// a control block and a ring that are mapped, and a file that is open, need none.
func (r *recording) lower() {
	// Collecting changes its niceness up and down (background.go).
	const nice = 20 - niceFinished // as RLIMIT_NICE counts
	_ = unix.Setrlimit(unix.RLIMIT_NICE, &unix.Rlimit{Cur: nice, Max: nice})
	if r.lowered {
		return
	}
	r.lowered = true
	if err := r.rights.give(); err != nil {
		r.ui.Debug("privileges stay: " + failure.FirstLine(err))
	}
}

// raise takes them back for what needs them: ptrace, another session's ring,
// the end of the trace in a folder that is not ours.
func (r *recording) raise() {
	if !r.lowered {
		return
	}
	r.lowered = false
	if err := r.rights.take(); err != nil {
		r.ui.Warn("cannot take privileges back: " + failure.FirstLine(err))
	}
}
