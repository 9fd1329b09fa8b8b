package session

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// A Selection says which processes are meant.
type Selection struct {
	PIDs []int
	Name *regexp.Regexp // of command lines of ROCm processes; nil: none
	Tree bool           // the processes below these, too, if they hold a GPU
}

// A candidate is a process that a selection comes to.
type candidate struct {
	pid        int
	startTicks uint64 // 0: not known
	command    string
}

// A choice is what a selection came to.
type choice struct {
	first   int         // the process that gives the trace its name
	targets []candidate // in the order in which they are attached to
	passed  []candidate // looked at, and without a GPU
}

// alone: the one process that was given, and nothing below it that holds a GPU.
func (c *choice) alone(s Selection) bool {
	return s.Name == nil && len(s.PIDs) == 1 && len(c.targets) == 1 && c.targets[0].pid == s.PIDs[0]
}

// choose looks for the processes, and touches none.
func (s Selection) choose() (*choice, error) {
	c := &choice{}
	roots, err := s.roots(c)
	if err != nil {
		return nil, err
	}
	for _, root := range roots {
		if s.Tree {
			c.addTree(root)
		} else {
			c.targets = add(c.targets, root)
		}
	}
	// What one root passes over another may have chosen.
	c.passed = slices.DeleteFunc(c.passed, func(p candidate) bool { return contains(c.targets, p.pid) })
	switch {
	case len(roots) > 0:
		c.first = roots[0].pid
	case len(c.passed) > 0:
		return nil, s.noneHolds(c.passed)
	}
	return c, nil
}

// roots are the processes that are meant by pid or by name. Those of that name
// without a GPU are passed over.
func (s Selection) roots(c *choice) ([]candidate, error) {
	var roots []candidate
	for _, pid := range s.PIDs {
		roots = add(roots, glanceOf(pid))
	}
	if s.Name == nil {
		return roots, nil
	}
	l, err := List()
	if err != nil {
		return nil, err
	}
	found := false
	for _, p := range l.Processes {
		if !s.Name.MatchString(p.CommandLine) && !s.Name.MatchString(p.Command) {
			continue
		}
		found = true
		if one := glanceOf(p.PID); p.Runtime != "" && p.DriverOpen {
			roots = add(roots, one)
		} else {
			c.passed = add(c.passed, one)
		}
	}
	if !found {
		return nil, s.noneMatches(l)
	}
	return roots, nil
}

// addTree chooses a process and those below it that hold a GPU. Where only
// those hold one, it is passed over.
func (c *choice) addTree(root candidate) {
	kin, err := target.Descendants(root.pid)
	if err != nil {
		c.targets = add(c.targets, root)
		return
	}
	var holders, others []candidate
	for _, k := range kin {
		one := candidate{k.PID, k.StartTicks, k.Comm}
		switch holds, err := holdsGPU(k.PID, k.Parent); {
		case holds:
			holders = append(holders, one)
		case err == nil || !passed(err):
			others = append(others, one)
		}
	}
	if len(holders) == 0 {
		c.targets = add(c.targets, root)
		return
	}
	if holds, _ := holdsGPU(root.pid, 0); holds {
		c.targets = add(c.targets, root)
	} else {
		c.passed = add(c.passed, root)
	}
	c.targets = add(c.targets, holders...)
	c.passed = add(c.passed, others...)
}

// holdsGPU: it has the runtime mapped and its driver open, by itself and not as
// the forked copy of its parent (0: not asked).
func holdsGPU(pid, parent int) (bool, error) {
	t, err := target.Glimpse(pid)
	if err != nil {
		return false, err
	}
	defer t.Close()
	devices, err := t.Devices()
	if err != nil || !devices.KFD {
		return false, err
	}
	maps, err := t.Maps()
	if err != nil || len(target.Runtimes(maps)) == 0 {
		return false, err
	}
	if parent == 0 {
		return true, nil
	}
	return !isCopyOf(t, parent), nil
}

func isCopyOf(t *target.Target, parent int) bool {
	above, err := target.Glimpse(parent)
	if err != nil {
		return false // it has ended: nothing to compare with
	}
	defer above.Close()
	return t.InheritedDriver(above)
}

// glanceOf names a process as far as it shows itself.
func glanceOf(pid int) candidate {
	t, err := target.Glimpse(pid)
	if err != nil {
		return candidate{pid: pid}
	}
	defer t.Close()
	return candidate{pid, t.StartTicks, t.Comm}
}

func contains(list []candidate, pid int) bool {
	return slices.ContainsFunc(list, func(c candidate) bool { return c.pid == pid })
}

// add appends those that are not yet there.
func add(list []candidate, more ...candidate) []candidate {
	for _, m := range more {
		if !contains(list, m.pid) {
			list = append(list, m)
		}
	}
	return list
}

// newcomers hold a GPU now, and are none of those that were chosen before.
func (s Selection) newcomers(before *choice) []candidate {
	now, err := s.choose()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(now.targets, func(c candidate) bool {
		known := slices.ContainsFunc(before.targets, func(b candidate) bool {
			return b.pid == c.pid && (b.startTicks == c.startTicks || b.startTicks == 0)
		})
		if known {
			return true
		}
		holds, _ := holdsGPU(c.pid, 0)
		return !holds
	})
}

func (s Selection) noneMatches(l *Listing) *Failure {
	cause := "no command line of a process here that uses ROCm matches it"
	if !l.Complete {
		cause += fmt.Sprintf("; %d could not be looked into", l.Denied+len(l.Silent))
	}
	return &Failure{
		What: fmt.Sprintf("no process is named %q", s.Name), Cause: cause, Fix: "rtl-attach ps lists them",
		Target: untouched, Code: NotPermitted, Err: errNoTarget,
	}
}

func (s Selection) noneHolds(passed []candidate) *Failure {
	return &Failure{
		What:  fmt.Sprintf("no process that is named %q holds a GPU", s.Name),
		Cause: "none has the ROCm runtime mapped and its driver open: " + names(passed), Fix: "rtl-attach ps says what they hold",
		Target: untouched, Code: Unsuitable, Err: errNoTarget,
	}
}

var errNoTarget = errors.New("no such process")
