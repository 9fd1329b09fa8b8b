package session

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/control"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

// Ask sends a command to the recorder of a process, and returns its answer. Errors are *failure.Error.
func Ask(pid int, command string) (control.Reply, error) {
	return watchdog.Do(pid, func() (control.Reply, error) {
		recorder, err := recorderOf(pid)
		if err != nil {
			return control.Reply{}, err
		}
		reply, err := control.Ask(recorder, command)
		switch {
		case errors.Is(err, control.ErrNoAnswer):
			return reply, &failure.Error{
				What: fmt.Sprintf("cannot reach the recorder of pid %d", pid), Cause: "no answer at its private socket: " + failure.FirstLine(err),
				Fix:    fmt.Sprintf("ask from where the recorder (pid %d) runs: another container may have its own network", recorder.PID),
				Target: failure.Untouched, Code: failure.Failed, Err: err,
			}
		case err != nil:
			return reply, failure.Explain("command the recorder of", pid, err, failure.Untouched)
		case reply.Error != "":
			return reply, &failure.Error{
				What:  fmt.Sprintf("the recorder of pid %d refuses %s", pid, command),
				Cause: "the recorder says: " + reply.Text, Fix: "rtl-attach " + command + " --help", Target: failure.Untouched, Code: failure.Failed,
			}
		}
		return reply, nil
	})
}

// recorderOf returns the live recorder of a process.
func recorderOf(pid int) (ring.Holder, error) {
	t, err := target.OpenReadOnly(pid) // another rtl-attach may be stopping a thread of it
	if err != nil {
		return ring.Holder{}, failure.Explain("find the recorder of", pid, err, failure.Untouched)
	}
	defer t.Close()
	c, err := resident.Open(t)
	if errors.Is(err, resident.ErrNone) {
		return ring.Holder{}, notRecorded(pid)
	}
	if err != nil {
		return ring.Holder{}, failure.Explain("find the recorder of", pid, err, failure.Untouched)
	}
	defer c.Close()
	holder, held := c.Holder()
	if !held || !resident.LooksAlive(holder) {
		return holder, notRecorded(pid)
	}
	return holder, nil
}

func notRecorded(pid int) *failure.Error {
	return &failure.Error{
		What: fmt.Sprintf("pid %d is not being recorded", pid), Cause: "no recorder of rtl-attach holds it",
		Fix: fmt.Sprintf("rtl-attach -p %d --keep-last 30s", pid), Target: failure.Untouched, Code: failure.NotPermitted,
	}
}
