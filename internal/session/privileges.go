package session

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

// privileges are this process's privileges, which all of its recordings share. They are
// dropped while no recording needs any. Any goroutine may call the methods.
type privileges struct {
	mu      sync.Mutex
	needed  int  // how many recordings need them
	keep    bool // they are never dropped
	process privilege.Privileges
	meter   *meter // of pauses: it needs some

	observers *observers // of threads: they need some to begin
}

// newPrivileges returns the privileges for one recording. The caller must close them.
func newPrivileges(o Options) *privileges {
	return &privileges{needed: 1, keep: o.KeepPrivileges, meter: newMeter(), observers: newObservers(o.Threads)}
}

// close closes what needs privileges.
func (r *privileges) close() {
	r.meter.close()
	r.observers.close()
}

// drop notes that one recording needs no privileges for now.
func (r *privileges) drop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needed--; r.needed > 0 {
		return nil
	}
	r.meter.close()
	if r.keep {
		return nil
	}
	return r.process.Lower()
}

// restore notes that one recording needs privileges again.
func (r *privileges) restore() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needed++; r.needed > 1 {
		return nil
	}
	return r.process.Raise()
}

// insist is restore for what would be lost without them. It waits until limit for a thread of the tool that hangs.
func (r *privileges) insist(limit time.Duration) error {
	until := time.Now().Add(limit)
	err := r.restore()
	if err == nil {
		err = r.process.Raise() // another recording may have begun it, without waiting to its end
	}
	for errors.Is(err, privilege.ErrTimeout) && time.Now().Before(until) {
		err = r.process.Raise()
	}
	return err
}

// dropPrivileges drops this process's privileges while it collects records: it then only
// uses a mapped control block and ring, and an open file.
func (r *recording) dropPrivileges() {
	if !r.o.KeepPrivileges {
		// The collecting thread must be able to change its niceness (background.go).
		const nice = 20 - niceFinished // as RLIMIT_NICE counts
		_ = unix.Setrlimit(unix.RLIMIT_NICE, &unix.Rlimit{Cur: nice, Max: nice})
	}
	if r.dropped {
		return
	}
	r.dropped = true
	if err := r.privileges.drop(); err != nil {
		r.ui.Debug("privileges stay: " + failure.FirstLine(err))
	}
}

// restorePrivileges restores them for ptrace, the ring of a further session, and the end of
// a trace in another user's folder.
func (r *recording) restorePrivileges() {
	if !r.dropped {
		return
	}
	r.dropped = false
	if err := r.privileges.restore(); err != nil {
		r.ui.Warn("cannot restore privileges: " + failure.FirstLine(err))
	}
}
