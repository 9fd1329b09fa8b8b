package resident

import "github.com/rtl-attach/rtl-attach/internal/ring"

// StateText returns the name of a payload's state.
func StateText(s ring.State) string {
	switch s {
	case ring.StateIdle:
		return "idle"
	case ring.StateArming:
		return "arming"
	case ring.StateActive:
		return "active"
	case ring.StateDraining:
		return "draining"
	case ring.StateDormant:
		return "dormant"
	case ring.StateOff:
		return "off"
	}
	return "unknown"
}

// EndText returns how a session ended, for warnings and traces.
func EndText(e ring.End) string {
	switch e {
	case ring.EndShutDown:
		return "the application shut its ROCm runtime down"
	case ring.EndExit:
		return "the process is exiting"
	case ring.EndRecorderDead:
		return "this recorder gave no sign of life for too long"
	case ring.EndPeriod, ring.EndSchedule:
		return "the windows of its schedule are over"
	case ring.EndOtherTool, ring.EndDetach:
		return "another rtl-attach ended it"
	}
	return "its last record did not come"
}
