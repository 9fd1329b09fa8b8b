package ptrace

import (
	"errors"
	"fmt"
)

var (
	// ErrGone: the thread does not exist any more (or never was ours: ESRCH).
	ErrGone = errors.New("thread is gone")
	// ErrDenied: the kernel refused to let us trace the thread.
	ErrDenied = errors.New("tracing not permitted")
	// ErrNoStop: the thread did not stop within its deadline. It has been
	// given up together with the operating system thread that traced it.
	ErrNoStop = errors.New("thread did not stop in time")

	// errRenamed: no thread of ours has this number any more. It may live on with
	// its leader's, since it has executed a program (ptrace(2)), and be traced still.
	errRenamed = fmt.Errorf("%w, or has executed a program: %w", ErrGone, ErrNoStop)
)
