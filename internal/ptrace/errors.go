package ptrace

import "errors"

var (
	// ErrGone: the thread does not exist any more (or never was ours: ESRCH).
	ErrGone = errors.New("thread is gone")
	// ErrDenied: the kernel refused to let us trace the thread.
	ErrDenied = errors.New("tracing not permitted")
	// ErrNoStop: the thread did not stop within its deadline. It has been
	// given up together with the operating system thread that traced it.
	ErrNoStop = errors.New("thread did not stop in time")
)
