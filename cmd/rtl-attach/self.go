package main

import (
	"os"
	"os/exec"
	"strings"
)

// toolName is the name under which the tool is installed.
const toolName = "rtl-attach"

// ownCommand returns what a user types to run this tool again: its name, if a shell
// finds this file under it, or else the path by which it was started.
func ownCommand() string {
	path, err := os.Executable()
	if err != nil {
		return toolName
	}
	if found, err := exec.LookPath(toolName); err == nil && sameFile(found, path) {
		return toolName
	}
	if started := os.Args[0]; strings.Contains(started, "/") && sameFile(started, path) {
		return started
	}
	return path
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
