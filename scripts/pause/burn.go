package main

import (
	"os/exec"
	"syscall"
)

// burn starts n processes that compute until the caller calls stop, or this process dies.
func burn(n int) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range n {
		c := exec.Command("sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			return stop, err
		}
		all = append(all, c)
	}
	return stop, nil
}
