package privilege

import "github.com/moby/sys/capability"

// Effective says whether this thread has a capability in effect.
func Effective(c capability.Cap) bool { return inSet(capability.EFFECTIVE, c) }

// Bounding says whether programs that this process executes could get it.
func Bounding(c capability.Cap) bool { return inSet(capability.BOUNDING, c) }

func inSet(set capability.CapType, c capability.Cap) bool {
	caps, err := capability.NewPid2(0)
	return err == nil && caps.Load() == nil && caps.Get(set, c)
}
