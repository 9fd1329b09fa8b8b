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
	Name *regexp.Regexp // of command lines; nil: none
	Tree bool           // the processes below these, too, if they hold a GPU
	Yes  bool           // all servers below a pid are meant, if there are several
}

// A candidate is a process that a selection comes to.
type candidate struct {
	pid        int
	startTicks uint64 // 0: not known
	command    string
	parent     int // 0: not known
}

func candidateOf(k target.ProcInfo) candidate {
	return candidate{k.PID, k.StartTicks, k.Comm, k.Parent}
}

// isSame: by pid and start time, as far as that is known.
func (c candidate) isSame(other candidate) bool {
	return c.pid == other.pid && (c.startTicks == other.startTicks || c.startTicks == 0 || other.startTicks == 0)
}

// A choice is what a selection came to.
type choice struct {
	first   int         // the process that gives the trace its name
	roots   []int       // those that are meant themselves
	targets []candidate // in the order in which they are attached to
	passed  []candidate // looked at, and without a GPU
	hidden  []candidate // may not be looked into
}

// alone: the one process that was given, and nothing below it that holds a GPU.
func (c *choice) alone(s Selection) bool {
	return s.Name == nil && len(s.PIDs) == 1 && len(c.targets) == 1 && c.targets[0].pid == s.PIDs[0]
}

// choose looks for the processes, and touches none.
func (s Selection) choose() (*choice, error) {
	families, err := target.ReadProcTree()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	c := &choice{}
	for _, pid := range s.PIDs {
		c.roots = append(c.roots, pid)
		if root := glanceOf(pid); !s.Tree || !c.addTree(root, families) {
			c.targets = add(c.targets, root)
		}
	}
	if s.Name != nil {
		if err := s.addNamed(c, families); err != nil {
			return nil, err
		}
	}
	// What one root passes over another may have chosen.
	c.passed = slices.DeleteFunc(c.passed, func(p candidate) bool { return contains(c.targets, p.pid) })
	switch {
	case len(s.PIDs) > 0:
		c.first = s.PIDs[0]
	case len(c.targets) > 0:
		c.first = c.targets[0].pid
	default:
		return nil, s.noneHolds(c)
	}
	return c, nil
}

// addTree chooses the processes below root that hold a GPU, and root if it does,
// too; else that is passed over. false: there are none, and nothing is chosen.
func (c *choice) addTree(root candidate, families target.ProcTree) bool {
	var holders []candidate
	below := &choice{}
	for _, k := range families.Descendants(root.pid) {
		if holds, err := holdsGPU(k.PID, k.Parent); holds {
			holders = append(holders, candidateOf(k))
		} else {
			below.passOver(candidateOf(k), err)
		}
	}
	c.hidden = add(c.hidden, below.hidden...)
	if len(holders) == 0 {
		return false
	}
	if holds, _ := holdsGPU(root.pid, 0); holds {
		c.targets = add(c.targets, root)
	} else {
		c.passed = add(c.passed, root)
	}
	c.targets = add(c.targets, holders...)
	c.passed = add(c.passed, below.passed...)
	return true
}

// passOver notes one that does not hold a GPU, by the error of looking.
func (c *choice) passOver(one candidate, err error) {
	switch {
	case errors.Is(err, target.ErrDenied):
		c.hidden = add(c.hidden, one)
	case err == nil || !target.IsAbsent(err):
		c.passed = add(c.passed, one)
	}
}

// holdsGPU: it has the runtime mapped and its driver open, by itself and not as
// the forked copy of its parent (0: not asked).
func holdsGPU(pid, parent int) (bool, error) {
	t, err := target.OpenLight(pid)
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
	above, err := target.OpenLight(parent)
	if err != nil {
		return false // it has ended: nothing to compare with
	}
	defer above.Close()
	return t.InheritedDriver(above)
}

// glanceOf names a process as far as it shows itself.
func glanceOf(pid int) candidate {
	t, err := target.OpenLight(pid)
	if err != nil {
		return candidate{pid: pid}
	}
	defer t.Close()
	return candidate{pid, t.StartTicks, t.Comm, t.Parent}
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
