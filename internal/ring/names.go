package ring

// The names of the payload's memfds (abi.h: RTL_CONTROL_NAME, RTL_RING_NAME).
const (
	ControlName = "rtl-control"
	RingName    = "rtl-ring"
)
