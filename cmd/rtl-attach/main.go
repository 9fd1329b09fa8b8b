// Command rtl-attach records the GPU timeline of a ROCm process that is
// already running, and leaves the process as it was.
package main

import (
	"os"
	"runtime"
)

// The kernel accepts ptrace requests only from the thread that attached, and
// detaches a thread's tracees when that thread ends. So the main goroutine keeps
// the main thread; package ptrace locks a thread of its own.
func init() { runtime.LockOSThread() }

func main() { os.Exit(int(run(os.Args[1:]))) }
