package session

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

// privileges are this process's privileges, which all of its recordings share. They are
// dropped while no recording needs any. Any goroutine may call the methods.
type privileges struct {
	mu      sync.Mutex
	needed  int // how many recordings need them
	process privilege.Privileges
	meter   *meter // of pauses: it needs some
}

// newPrivileges returns the privileges for one recording. The meter has to be closed.
func newPrivileges() *privileges { return &privileges{needed: 1, meter: newMeter()} }

// drop says that one recording needs none for now.
func (r *privileges) drop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needed--; r.needed > 0 {
		return nil
	}
	r.meter.close()
	return r.process.Lower()
}

// restore says that one recording needs them again.
func (r *privileges) restore() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needed++; r.needed > 1 {
		return nil
	}
	return r.process.Raise()
}

// dropPrivileges drops our privileges for the time in which records are collected: a mapped
// control block and ring, and an open file, need none.
func (r *recording) dropPrivileges() {
	// Collecting changes its niceness up and down (background.go).
	const nice = 20 - niceFinished // as RLIMIT_NICE counts
	_ = unix.Setrlimit(unix.RLIMIT_NICE, &unix.Rlimit{Cur: nice, Max: nice})
	if r.dropped {
		return
	}
	r.dropped = true
	if err := r.privileges.drop(); err != nil {
		r.ui.Debug("privileges stay: " + failure.FirstLine(err))
	}
}

// restorePrivileges restores them for what needs them: ptrace, the ring of a further session,
// the end of a trace in another user's folder.
func (r *recording) restorePrivileges() {
	if !r.dropped {
		return
	}
	r.dropped = false
	if err := r.privileges.restore(); err != nil {
		r.ui.Warn("cannot restore privileges: " + failure.FirstLine(err))
	}
}
