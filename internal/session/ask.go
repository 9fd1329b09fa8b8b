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

// Ask sends a command to the recorder of a process, or else to that of the processes below it, and returns its answer. Errors
// are *failure.Error.
func Ask(pid int, command string) (control.Reply, error) {
	return watchdog.Do(pid, func() (control.Reply, error) {
		recorder, err := recorderOf(pid)
		if errors.Is(err, errNotRecorded) {
			recorder, err = recorderBelow(pid, command, err)
		}
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

// recorderBelow returns the live recorder of the processes below one that is not recorded, such as a server's workers. If
// there is none, it returns the error of the process itself.
func recorderBelow(pid int, command string, own error) (found ring.Holder, err error) {
	tree, err := target.ReadProcTree()
	if err != nil {
		return found, failure.Explain("look below", pid, err, failure.Untouched)
	}
	worker := 0
	for _, w := range recordedBelow(tree.Descendants(pid)) {
		recorder, err := recorderOf(w.PID)
		switch {
		case errors.Is(err, errNotRecorded):
			continue
		case err != nil:
			return found, err
		case worker == 0:
			worker, found = w.PID, recorder
		case recorder.PID != found.PID:
			return found, &failure.Error{
				What:  fmt.Sprintf("pid %d has several recordings below it", pid),
				Cause: fmt.Sprintf("pid %d records pid %d, and pid %d records pid %d", found.PID, worker, recorder.PID, w.PID),
				Fix:   fmt.Sprintf("name a process of one: rtl-attach %s %d", command, worker), Target: failure.Untouched, Code: failure.Usage,
			}
		}
	}
	if worker == 0 {
		return found, own
	}
	return found, nil
}

var errNotRecorded = errors.New("not recorded")

func notRecorded(pid int) *failure.Error {
	return &failure.Error{
		What: fmt.Sprintf("pid %d is not being recorded", pid), Cause: "no recorder of rtl-attach holds it, or a process below it",
		Fix: fmt.Sprintf("rtl-attach -p %d --keep-last 30s", pid), Target: failure.Untouched, Code: failure.NotPermitted, Err: errNotRecorded,
	}
}
