package session

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	descriptorsOfTool   = 64
	descriptorsOfMember = 16
)

// reserveDescriptors makes the kernel enlarge this process's descriptor table before the
// tool touches a target. A later growth would wait until every processor has been idle or
// has switched tasks (synchronize_rcu): on busy processors that took seconds, and the
// bootstrap thread waits no longer for the tool.
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
