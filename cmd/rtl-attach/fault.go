//go:build rtlfault

package main

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

// A build for the tests, never installed: RTL_FAULT=kill@POINT or stop@POINT
// sends this process a signal when it passes that point for the first time.
func init() {
	action, point, _ := strings.Cut(os.Getenv("RTL_FAULT"), "@")
	sig, known := map[string]unix.Signal{"kill": unix.SIGKILL, "stop": unix.SIGSTOP}[action]
	if !known {
		return
	}
	var once sync.Once
	strike := func(now string) {
		if now == point {
			// To this thread: the call does not return before the signal has acted.
			once.Do(func() { _ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig) })
		}
	}
	inject.Fault = func(p inject.Point) error {
		strike(string(p))
		return nil
	}
	session.Passing = func(p session.Point) { strike(string(p)) }
}
