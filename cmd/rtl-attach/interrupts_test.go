package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// TestIgnoredSignals: a signal that nohup has ignored stays ignored.
func TestIgnoredSignals(t *testing.T) {
	signal.Ignore(unix.SIGHUP)
	defer signal.Reset(unix.SIGHUP, unix.SIGPIPE)
	_, _, release := interrupts(newUI(true, false))
	defer release()
	if !signal.Ignored(unix.SIGHUP) {
		t.Error("SIGHUP is no longer ignored")
	}
	if signal.Ignored(unix.SIGINT) || len(endSignals()) != 2 {
		t.Errorf("end signals: %v", endSignals())
	}
}

// TestSummaryInterrupted: after the recording a signal ends a summary that blocks; the
// exit code is the recording's.
func TestSummaryInterrupted(t *testing.T) {
	trace, _ := ofThree(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for _, code := range []failure.ExitCode{failure.OK, failure.TargetExited} {
		outcome := session.Outcome{Path: trace, Code: code}
		var got failure.ExitCode
		said := saidOf(t, os.Stdout, func() {
			got = recordFlags{}.conclude(ended, harness.FullPipe(t), newUI(false, false), outcome)
		})
		if want := "the trace is saved: rtl-attach report " + trace; got != code || !strings.Contains(said, want) {
			t.Errorf("code %d, not %d; said: %q", got, code, said)
		}
	}
}
