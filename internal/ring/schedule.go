package ring

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// IsRecording reports whether a session is active, also between two windows of its schedule.
func (s State) IsRecording() bool { return s == StateActive || s == StateOff }

// Start begins the schedule of the active session at a time of CLOCK_BOOTTIME, which may be to come.
func (c *Control) Start(startNS uint64, timeout time.Duration) error {
	atomic.StoreUint64(&c.schedule().StartNS, startNS)
	return c.command(request{command: CommandStart, timeout: timeout})
}

// Switch ends the window of the active session's schedule, and lets no other begin; or lets the schedule go on. The
// payload's state says when that is done.
func (c *Control) Switch(enable bool, timeout time.Duration) error {
	if enable {
		return c.command(request{command: CommandEnable, timeout: timeout})
	}
	return c.command(request{command: CommandDisable, timeout: timeout})
}

func (c *Control) schedule() *Schedule { return (*Schedule)(unsafe.Pointer(&c.mem[ScheduleOffset])) }

// Windows returns how many windows of the session's schedule were recorded so far, how many were
// missed, and when the next one begins; 0: not known.
func (c *Control) Windows() (recorded, missed, nextNS uint64) {
	s := c.schedule()
	return atomic.LoadUint64(&s.Periods), atomic.LoadUint64(&s.Missed), atomic.LoadUint64(&s.NextNS)
}
