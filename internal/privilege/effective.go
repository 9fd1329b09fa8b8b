package privilege

import "github.com/moby/sys/capability"

// Effective says whether this thread has a capability in effect.
func Effective(c capability.Cap) bool {
	caps, err := capability.NewPid2(0)
	return err == nil && caps.Load() == nil && caps.Get(capability.EFFECTIVE, c)
}
