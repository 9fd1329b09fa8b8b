package session

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	descriptorsOfTool   = 64
	descriptorsOfMember = 16
)

// reserveDescriptors has the kernel enlarge this process's table of descriptors before
// any target is touched. Whoever makes a table grow later waits until every processor
// has been seen idle or switching (synchronize_rcu): on busy ones that took seconds,
// and a bootstrap thread waits for us no longer than that.
func reserveDescriptors(members int) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return
	}
	defer null.Close()
	most := descriptorsOfTool + members*descriptorsOfMember
	if fd, err := unix.FcntlInt(null.Fd(), unix.F_DUPFD_CLOEXEC, most); err == nil {
		_ = unix.Close(fd)
	}
}
