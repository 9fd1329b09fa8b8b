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

// An Feasibility is what an injection would find.
type Feasibility struct {
	Threads int  // that it would try, the best of them first
	Waiting bool // the first one waits for a futex, without time-out: the best case
	Filters int  // a thread that has seccomp filters; 0: none has
	Read    bool // they were read, and let an injection through
}

// DryRun goes as far as Inject does before it stops a thread, and fails as that
// would fail. With readFilters it goes on to read a thread's seccomp filters,
// if it has any: the thread is stopped for that, as Inject stops it.
func DryRun(t *target.Target, tr *ptrace.Tracer, readFilters bool) (*Feasibility, error) {
	s, err := prepare(context.Background(), t, tr, Request{}.withDefaults())
	if err != nil {
		return nil, err
	}
	list, err := s.await()
	if err != nil {
		return nil, err
	}
	o := &Feasibility{Threads: len(list), Waiting: list[0].class == idleFutexWait}
	if list[0].seccomp == 0 {
		return o, nil
	}
	o.Filters = list[0].tid
	if !readFilters {
		return o, s.hidden(list[0])
	}
	deadline := time.Now().Add(visitLimit)
	for _, c := range list {
		o.Filters, o.Read = c.tid, true
		if err = s.filtered(c); !passing(err) || time.Now().After(deadline) {
			break
		}
	}
	if passing(err) { // none of them stayed where it was
		o.Read = false
		return o, nil
	}
	return o, err
}

// await looks for threads to be visited, as long as visit does.
func (v *threadBorrower) await() ([]candidate, error) {
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
	return nil, v.nobody(errNoWaiting)
}

// hidden fails, as reading would, where a thread's filters cannot be read.
func (v *threadBorrower) hidden(c candidate) error {
	if MayReadFilters() {
		return nil
	}
	return &SeccompError{PID: v.t.PID, TID: c.tid, Err: fmt.Errorf("%w: %w", ptrace.ErrFilterHidden, unix.EACCES)}
}

// MayReadFilters says whether the kernel shows us seccomp filters, as far as that
// is known without a try (ptrace.ErrFilterHidden).
func MayReadFilters() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err != nil || mode != 0 {
		return false
	}
	return privilege.Effective(capability.CAP_SYS_ADMIN) && inFirstUserNamespace()
}

// inFirstUserNamespace: root in another has no say there.
func inFirstUserNamespace() bool {
	const first = "user:[4026531837]" // PROC_USER_INIT_INO
	ns, err := os.Readlink("/proc/self/ns/user")
	return err == nil && ns == first
}
