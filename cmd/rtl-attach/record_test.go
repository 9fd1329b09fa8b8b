package main

import (
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

// TestIgnoredSignals: what nohup has the tool ignore, it ignores.
func TestIgnoredSignals(t *testing.T) {
	signal.Ignore(unix.SIGHUP)
	defer signal.Reset(unix.SIGHUP, unix.SIGPIPE)
	_, _, release := interrupts(newUI(true, false))
	defer release()
	if !signal.Ignored(unix.SIGHUP) {
		t.Error("SIGHUP is heeded again")
	}
	if signal.Ignored(unix.SIGINT) || len(endings()) != 2 {
		t.Errorf("heeded: %v", endings())
	}
}
