package preflight

import (
	"os"
	"strings"
)

// TSCIsClock reports whether the time-stamp counters of all CPUs agree: the
// kernel then uses them itself, or its hypervisor does.
func TSCIsClock() bool {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	switch strings.TrimSpace(string(b)) {
	case "tsc", "kvm-clock", "hyperv_clocksource_tsc_page":
		return err == nil
	}
	return false
}
