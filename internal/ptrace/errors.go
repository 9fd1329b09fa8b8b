package ptrace

import (
	"errors"
	"fmt"
)

var (
	// ErrGone means that the thread no longer exists, or is not a tracee of the
	// calling thread (ESRCH).
	ErrGone = errors.New("thread is gone")
	// ErrDenied means that the kernel does not permit the tool to trace the thread.
	ErrDenied = errors.New("tracing not permitted")
	// ErrNoStop means that the thread did not stop within its deadline. The tracer
	// ends the OS thread that traced it, so the kernel detaches it.
	ErrNoStop = errors.New("thread did not stop in time")

	// errRenamed means that no tracee has this thread ID any more. A thread that
	// executes a program gets the ID of its leader (ptrace(2)), and is still traced.
	errRenamed = fmt.Errorf("%w, or has executed a program: %w", ErrGone, ErrNoStop)
)
