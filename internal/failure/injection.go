package failure

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/payload"
	"golang.org/x/sys/unix"
)

func explainInjection(f *Error) bool {
	var (
		load    *inject.LoadError
		timeout *inject.TimeoutError
		failed  *inject.BootError
		asleep  *target.AsleepError
	)
	switch {
	case errors.As(f.Err, &asleep):
		return f.set(Failed, asleepCause(asleep), "run this again once it goes on: thaw its container, say, or let its vfork child or I/O end")
	case errors.Is(f.Err, inject.ErrNoThread):
		return f.set(Failed, BareText(f.Err), "run this again; with --verbose it says which threads were tried")
	case errors.As(f.Err, &load) && errors.Is(f.Err, inject.ErrNotStaged):
		return f.set(Failed, fmt.Sprintf("its dynamic loader said: %s; and none of its folders takes an executable file", load.Text),
			"let it have one of /dev/shm, /tmp, /run or /var/tmp that is writable and not noexec")
	case errors.As(f.Err, &load):
		return f.set(Failed, "its dynamic loader said: "+load.Text, "put right what it names, then run this again")
	case errors.As(f.Err, &timeout):
		return f.set(Failed, fmt.Sprintf("step %q took longer than %s", timeout.Step, humanize.Duration(timeout.After)),
			"run this again; with --verbose it says which threads were tried")
	case errors.As(f.Err, &failed):
		return f.set(Failed, failed.Error(), bootFix(failed))
	case errors.Is(f.Err, inject.ErrLeft):
		return f.set(Failed, "this tool was held up for longer than its thread in the target waits for it (2 s)", "run this again")
	case errors.Is(f.Err, inject.ErrRights):
		return f.set(Failed, "its user or its capabilities changed while a thread was made in it", "run this again")
	case errors.Is(f.Err, inject.ErrNotBuilt):
		return f.set(Failed, "this binary was built without its bootstrap code", "build it with make")
	}
	return false
}

func bootFix(e *inject.BootError) string {
	switch {
	case errors.Is(e, unix.EAGAIN):
		return "allow it some more threads (prlimit --nproc, or pids.max of its control group), then run this again"
	case errors.Is(e, unix.ENOMEM):
		return "allow it some more memory (prlimit --as), then run this again"
	}
	return "run this again; with --verbose it says how far it came"
}

func asleepCause(e *target.AsleepError) string {
	cause := "all its threads are in uninterruptible sleep (state D)"
	if e.Where != "" {
		cause += ", the first in the kernel's " + e.Where
	}
	return cause
}

func explainPayload(f *Error) bool {
	if errors.Is(f.Err, ring.ErrNoAnswer) {
		return f.set(Failed, "the payload's control thread waits for a lock that a thread of the target holds (the dynamic linker's, say), or gets no processor",
			"run this again once it goes on: a payload that finds no recorder then ends its session by itself")
	}
	var refused *ring.CommandError
	if !errors.As(f.Err, &refused) {
		return false
	}
	fix := "run this again; with --verbose it says how far it came"
	switch refused.Errno {
	case unix.ENODEV:
		fix = "run this once the process has initialised ROCm"
	case unix.ETIMEDOUT:
		fix = "run this again"
	case unix.ECANCELED:
		fix = "run this once the process has restarted ROCm"
	case unix.ENOTSUP:
		fix = "name that one (--set RTL_HSA_LIBRARY=FILE), or restart the process to record the other"
	case unix.ENOMEM:
		fix = "try a smaller --buffer-size"
	}
	return f.set(Failed, refused.Error(), fix)
}

func explainLibrary(f *Error) bool {
	var library *LibraryError
	if !errors.As(f.Err, &library) {
		return false
	}
	f.What, f.Target = "the payload cannot be used: "+FirstLine(library.Err), Untouched
	if errors.Is(library.Err, payload.ErrNotBuilt) {
		return f.set(Failed, "this binary was built without it", "build it with make")
	}
	return f.set(Failed, "it is not there, or no shared library with a build id", "leave --payload out: one is built in")
}

// LibraryError is an error of the payload's file. The target is not touched.
type LibraryError struct{ Err error }

func (e *LibraryError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the file.
func (e *LibraryError) Unwrap() error { return e.Err }

// NoPayload explains why the tool has no payload to load into pid.
func NoPayload(pid int, err error) *Error {
	return Explain("trace", pid, &LibraryError{Err: err}, Untouched)
}
