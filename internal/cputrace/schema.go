// Package cputrace describes the rows of a trace that tell what a process's threads did beside its
// GPUs: samples of their stacks, and the times in which they did not run.
package cputrace

import (
	_ "embed"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

//go:embed schema.sql
var schema string

func init() { tracedb.AddSchema(schema) }

// Kinds of frames, in rtl_cpu_frame.
const (
	Native = 0
	Python = 1
	Kernel = 2
)

// GIL is the kind of a Python interpreter's lock, in rtl_cpu_lock.
const GIL = 0

// The clocks of samples, in rtl_cpu_sample.
const (
	CPUClock  = 0
	WallClock = 1
)

// The states of a sampled thread, in rtl_cpu_sample.
const (
	RanUser   = 0
	RanKernel = 1
	DidNotRun = 2
)
