package session

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// detachTree ends the session on pid, and then the sessions on its descendants: a
// server's workers. It continues if one fails.
func detachTree(pid int, yes bool, ui GroupObserver) error {
	tree, err := target.ReadProcTree() // before the detach: the descendants of a process that ends get another parent
	if err != nil {
		return failure.Explain("look below", pid, err, failure.Untouched)
	}
	own := detach(pid, 0, ui)
	below := recordedBelow(tree.Descendants(pid))
	if errors.Is(own, resident.ErrNone) && !yes {
		if err := discover.RefuseSeveral(pid, processesOf(below), tree); err != nil {
			return err
		}
	}
	switch {
	case len(below) == 0:
		return own
	case errors.Is(own, resident.ErrNone) && len(below) == 1:
		return below[0].detach(ui)
	}
	s := &several{ui: ui}
	if !errors.Is(own, resident.ErrNone) {
		s.note(own)
	}
	for _, w := range below {
		s.note(w.detach(ui))
	}
	return s.failure()
}

// recorded is a process with a session, or one that may have a session.
type recorded struct {
	discover.Process
	err error // why its state cannot be read
}

func processesOf(list []recorded) (all []discover.Process) {
	for _, w := range list {
		all = append(all, w.Process)
	}
	return all
}

func recordedBelow(processes []target.ProcInfo) (found []recorded) {
	for _, k := range processes {
		if active, err := isRecorded(k); active || err != nil {
			found = append(found, recorded{discover.ProcessOf(k), err})
		}
	}
	return found
}

// isRecorded reports whether a process has a session. The process may be stopped or traced.
func isRecorded(k target.ProcInfo) (bool, error) {
	t, err := target.OpenLight(k.PID)
	if err != nil {
		return false, resident.UnlessAbsent(err)
	}
	defer t.Close()
	if t.StartTicks != k.StartTicks {
		return false, nil // the pid belongs to another process now
	}
	c, err := resident.Open(t)
	if err != nil {
		return false, resident.UnlessAbsent(err)
	}
	defer c.Close()
	state := c.Snapshot().State
	return state != ring.StateIdle && state != ring.StateDormant, nil
}

func (w recorded) detach(ui Observer) error {
	if w.err != nil {
		return failure.Explain("detach from", w.PID, w.err, failure.Untouched)
	}
	return detach(w.PID, w.StartTicks, prefixed{ui, fmt.Sprintf("pid %d: ", w.PID)})
}

// several are processes to detach from, each with its own result. Failures are reported at
// once.
type several struct {
	ui    GroupObserver
	codes []failure.ExitCode
	first *failure.Error
	fails int
}

func (s *several) note(err error) {
	var f *failure.Error
	if !errors.As(err, &f) {
		s.codes = append(s.codes, failure.OK)
		return
	}
	s.ui.Failed(f)
	s.codes = append(s.codes, f.Code)
	if s.fails++; s.first == nil {
		s.first = f
	}
}

// failure returns the common failure of all processes; nil: none has failed.
func (s *several) failure() error {
	if s.first == nil {
		return nil
	}
	code := failure.CombineExitCodes(s.codes)
	if code == failure.SomeFailed && s.fails == len(s.codes) {
		code = failure.Failed
	}
	return &failure.Error{
		What:   fmt.Sprintf("could not detach from %d of %d processes", s.fails, len(s.codes)),
		Cause:  "the first: " + s.first.What + ": " + s.first.Cause,
		Fix:    "see each error above; rtl-attach status PID says what is in a process",
		Target: "each as its error above says; the others are detached", Code: code, Err: s.first,
	}
}

// prefixed puts the process before each line.
type prefixed struct {
	Observer
	who string
}

func (p prefixed) Detached(how string) { p.Observer.Detached(p.who + how) }
func (p prefixed) Warn(text string)    { p.Observer.Warn(p.who + text) }
