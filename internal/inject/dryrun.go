package inject

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Feasibility is the result of a DryRun: what an injection would find.
type Feasibility struct {
	Threads int  // number of threads that it would try
	Waiting bool // the first of them is in a futex wait without time-out: the best case
	Filters int  // ID of a thread that has seccomp filters; 0: none
	Read    bool // the filters were read, and allow an injection
}

// DryRun does what Inject does before it stops a thread, and fails as Inject would
// fail. If the thread has seccomp filters and readFilters is set, DryRun also stops it
// and reads them, as Inject does.
func DryRun(t *target.Target, tr *ptrace.Tracer, readFilters bool) (*Feasibility, error) {
	s, err := prepare(context.Background(), t, tr, Request{}.withDefaults())
	if err != nil {
		return nil, err
	}
	list, err := s.awaitCandidates()
	if err != nil {
		return nil, err
	}
	o := &Feasibility{Threads: len(list), Waiting: list[0].class == idleFutexWait}
	if list[0].seccomp == 0 {
		return o, nil
	}
	o.Filters = list[0].tid
	if !readFilters {
		return o, s.checkReadable(list[0])
	}
	deadline := time.Now().Add(visitLimit)
	for _, c := range list {
		o.Filters, o.Read = c.tid, true
		if err = s.filtered(c); !tryAnother(err) || time.Now().After(deadline) {
			break
		}
	}
	if tryAnother(err) { // none of them stayed in its wait
		o.Read = false
		return o, nil
	}
	return o, err
}

// awaitCandidates looks for candidates for as long as visit does.
func (v *threadBorrower) awaitCandidates() ([]candidate, error) {
	deadline := time.Now().Add(visitLimit)
	for round := range rounds {
		if time.Now().After(deadline) {
			break
		}
		list, err := candidates(v.t, v.maps, 0)
		if err != nil || len(list) > 0 {
			return list, err
		}
		if err := v.t.CheckIdentity(); err != nil {
			return nil, err
		}
		time.Sleep(untilNext(round))
	}
	return nil, v.noThread(errNoWaiting)
}

// checkReadable fails, as reading would, if the tool may not read a thread's filters.
func (v *threadBorrower) checkReadable(c candidate) error {
	if MayReadFilters() {
		return nil
	}
	return &SeccompError{PID: v.t.PID, TID: c.tid, Err: fmt.Errorf("%w: %w", ptrace.ErrFilterHidden, unix.EACCES)}
}

// MayReadFilters reports whether the kernel lets the tool read seccomp filters, as far
// as it can know without trying (ptrace.ErrFilterHidden).
func MayReadFilters() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err != nil || mode != 0 {
		return false
	}
	return privilege.Effective(capability.CAP_SYS_ADMIN) && inFirstUserNamespace()
}

// inFirstUserNamespace reports whether this process is in the initial user namespace:
// the capabilities of root in another one do not count for this.
func inFirstUserNamespace() bool {
	const first = "user:[4026531837]" // PROC_USER_INIT_INO
	ns, err := os.Readlink("/proc/self/ns/user")
	return err == nil && ns == first
}
