//go:build rtlfault

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
)

// This file is in the tests' build only, which is never installed. With
// RTL_FAULT=ACTION@POINT[,ACTION@POINT…] the tool runs each action when it first
// passes its point, and prints it.
func init() {
	var faults []*fault
	for one := range strings.SplitSeq(os.Getenv("RTL_FAULT"), ",") {
		action, point, _ := strings.Cut(one, "@")
		if actions[action] != nil {
			faults = append(faults, &fault{action: action, point: point})
		}
	}
	strike := func(now string) (err error) {
		for _, f := range faults {
			err = errors.Join(err, f.strike(now))
		}
		return err
	}
	inject.Fault = func(p inject.Point) error { return strike(string(p)) }
	testpoint.Hook = func(p testpoint.Point) error { return strike(string(p)) }
	ptrace.Stopped = func() error { return strike(string(testpoint.Grace)) }
}

type fault struct {
	action, point string
	once          sync.Once
}

func (f *fault) strike(now string) (err error) {
	if now == f.point {
		f.once.Do(func() {
			_, _ = os.Stderr.WriteString("made to " + f.action + " at " + f.point + "\n")
			err = actions[f.action]()
		})
	}
	return err
}

var actions = map[string]func() error{
	"fail":   func() error { return errors.New("made to fail") },
	"hang":   hang,
	"kill":   func() error { return signalSelf(unix.SIGKILL) },
	"stop":   func() error { return signalSelf(unix.SIGSTOP) },
	"murder": killTarget,
}

// signalSelf signals this thread: the call returns after the signal has acted.
func signalSelf(sig unix.Signal) error {
	return unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

// killTarget kills the process that RTL_FAULT_PID names.
func killTarget() error {
	pid, err := strconv.Atoi(os.Getenv("RTL_FAULT_PID"))
	if err != nil {
		return err
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// hang never returns.
func hang() error { select {} }
