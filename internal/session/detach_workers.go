package session

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// recordedBelow are the processes below pid on which a session is: a server's
// workers, where the server itself holds no GPU.
func recordedBelow(pid int) (pids []int) {
	kin, err := target.Descendants(pid)
	if err != nil {
		return nil
	}
	for _, k := range kin {
		if isRecorded(k.PID) {
			pids = append(pids, k.PID)
		}
	}
	return pids
}

func isRecorded(pid int) bool {
	t, err := target.Open(pid)
	if err != nil {
		return false
	}
	defer t.Close()
	c, err := openResident(t)
	if err != nil {
		return false
	}
	defer c.Close()
	state := c.Snapshot().State
	return state != ring.StateIdle && state != ring.StateDormant
}

// detachAll goes on where one fails, and returns all failures.
func detachAll(pids []int, ui Observer) error {
	var errs error
	for _, pid := range pids {
		errs = errors.Join(errs, detach(pid, prefixed{ui, fmt.Sprintf("pid %d: ", pid)}))
	}
	return errs
}

// prefixed says whom a line is about.
type prefixed struct {
	Observer
	who string
}

func (p prefixed) Detached(how string) { p.Observer.Detached(p.who + how) }
func (p prefixed) Warn(text string)    { p.Observer.Warn(p.who + text) }
