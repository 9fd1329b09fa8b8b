package privilege

import "github.com/moby/sys/capability"

// Effective reports whether c is in the effective set of the calling thread.
func Effective(c capability.Cap) bool {
	caps, err := capability.NewPid2(0)
	return err == nil && caps.Load() == nil && caps.Get(capability.EFFECTIVE, c)
}
