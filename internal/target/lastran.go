package target

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LastRan returns when the thread last ran, by the scheduler's clock of the CPU on which that was: see CPUClock. The kernel sets it when
// the thread stops running (se.exec_start of /proc/PID/task/TID/sched).
func (t *Target) LastRan(tid int) (time.Duration, error) {
	b, err := readProc(t.threadPath(tid, "sched"))
	if err != nil {
		return 0, t.ofThread(tid, err)
	}
	return parseLastRan(b)
}

// parseLastRan parses a sched file. The thread's name, which can have any bytes, is in its first line.
func parseLastRan(b []byte) (time.Duration, error) {
	for line := range bytes.Lines(b) {
		name, value, _ := strings.Cut(string(line), ":")
		if strings.TrimSpace(name) != "se.exec_start" {
			continue
		}
		whole, part, ok := strings.Cut(strings.TrimSpace(value), ".")
		ms, err1 := strconv.ParseUint(whole, 10, 63)
		ns, err2 := strconv.ParseUint(part, 10, 63)
		const most = 1 << 42 // ms: longer than any machine runs
		if ok && err1 == nil && err2 == nil && len(part) == 6 && ms > 0 && ms < most {
			return time.Duration(ms)*time.Millisecond + time.Duration(ns), nil
		}
	}
	return 0, fmt.Errorf("sched: %w", ErrMalformed)
}

// cpuClockTime limits how long CPUClock waits for a CPU, which threads of a higher priority may keep.
const cpuClockTime = 200 * time.Millisecond

// CPUClock returns the scheduler's clock of a CPU, or a little less: the time for which the CPU has served the
// system's threads. It stands still while the CPU serves interrupts or other virtual machines, and while the machine is suspended, and is
// another one on each CPU. So a thread that last ran on this CPU has not run for at least the difference to its LastRan.
func CPUClock(cpu int) (time.Duration, error) {
	type answer struct {
		now time.Duration
		err error
	}
	found := make(chan answer, 1)
	go func() {
		now, err := clockOn(cpu)
		found <- answer{now, err}
	}()
	select {
	case a := <-found:
		return a.now, a.err
	case <-time.After(cpuClockTime):
		return 0, fmt.Errorf("clock of CPU %d: it serves other threads", cpu)
	}
}

// clockOn moves its thread to a CPU for a moment, where the thread's own LastRan is the clock.
func clockOn(cpu int) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return 0, fmt.Errorf("clock of CPU %d: %w", cpu, err)
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return 0, fmt.Errorf("clock of CPU %d: %w", cpu, err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	b, err := readProc("/proc/thread-self/sched")
	if err != nil {
		return 0, fmt.Errorf("clock of CPU %d: %w", cpu, err)
	}
	return parseLastRan(b)
}
