package main

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	quietWindow  = 20 * time.Millisecond
	quietShare   = 0.1 // of one CPU
	quietTimeout = 10 * time.Second
)

// processCPU returns the CPU time of all threads of a process in ns, 0 if it has exited.
// The clock id has the kernel's encoding (include/linux/posix-timers_types.h).
func processCPU(pid int) float64 {
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|2), &t) != nil {
		return 0
	}
	return float64(t.Nano())
}

func (p *process) cpuNS() float64 { return processCPU(p.pid()) }

// awaitQuiet waits until the process is idle.
func (p *process) awaitQuiet() {
	last := p.cpuNS()
	for end := time.Now().Add(quietTimeout); time.Now().Before(end); {
		time.Sleep(quietWindow)
		now := p.cpuNS()
		if now-last < quietShare*float64(quietWindow) {
			return
		}
		last = now
	}
}
