package hang

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// maxThreads is the largest description of threads that is still read, in bytes.
const maxThreads = 24000

// Threads describes what the threads of process pid and of its children wait for. It is called
// when the process should have ended and has not. The stacks are missing where gdb is not installed.
func Threads(pid int) string {
	all := one(pid)
	children, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			all += fmt.Sprintf("child %d:\n%s", n, one(n))
		}
	}
	return all[:min(len(all), maxThreads)]
}

func one(pid int) string {
	state, _ := exec.Command("sh", "-c", fmt.Sprintf("cd /proc/%d/task && grep -E 'Name|State|TracerPid|Sig(Pnd|Blk)|ShdPnd' */status; "+
		"grep . */wchan */syscall; cat ../stat", pid)).CombinedOutput()
	gdb := exec.Command("gdb", "-nx", "-p", strconv.Itoa(pid), "-batch", "-ex", "thread apply all bt 24")
	gdb.Env = append(gdb.Environ(), "DEBUGINFOD_URLS=") // it would wait for the network
	stacks, _ := gdb.Output()
	return string(stacks) + string(state)
}
