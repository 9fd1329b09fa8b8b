package tracedb

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// offsets are the differences between other clocks and CLOCK_BOOTTIME: add one to a
// CLOCK_BOOTTIME value to get the other clock.
type offsets struct{ monotonicNS, realtimeNS int64 }

func clockNS(clock int32) (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("clock %d: %w", clock, err)
	}
	return ts.Nano(), nil
}

// readOffsets returns the time and the offsets. It computes each offset from the middle of
// the narrowest of several readings, because preemption can fall into one.
func readOffsets() (nowNS int64, o offsets, err error) {
	if o.monotonicNS, err = offsetOf(unix.CLOCK_MONOTONIC); err != nil {
		return 0, o, err
	}
	if o.realtimeNS, err = offsetOf(unix.CLOCK_REALTIME); err != nil {
		return 0, o, err
	}
	nowNS, err = clockNS(unix.CLOCK_BOOTTIME)
	return nowNS, o, err
}

func offsetOf(clock int32) (int64, error) {
	best, narrowest := int64(0), int64(1<<62)
	for range 5 {
		before, err := clockNS(unix.CLOCK_BOOTTIME)
		if err != nil {
			return 0, err
		}
		other, err := clockNS(clock)
		if err != nil {
			return 0, err
		}
		after, err := clockNS(unix.CLOCK_BOOTTIME)
		if err != nil {
			return 0, err
		}
		if width := after - before; width < narrowest {
			best, narrowest = other-(before+width/2), width
		}
	}
	return best, nil
}
