// Command rtl-attach records the GPU timeline of a ROCm process that is
// already running, and leaves the process as it was.
package main

import (
	"os"
	"runtime"
)

// The kernel takes ptrace requests only from the thread that attached, and
// detaches what a thread traced when it ends: the main goroutine keeps the
// main thread (package ptrace has a locked thread of its own besides).
func init() { runtime.LockOSThread() }

func main() { os.Exit(int(run(os.Args[1:]))) }
