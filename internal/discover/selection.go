// Package discover finds the processes of a command: by pid or name, with their descendants
// that hold a GPU, and workers that start later. It reads /proc, and changes nothing.
package discover

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Selection describes which processes to find.
type Selection struct {
	PIDs []int
	Name *regexp.Regexp // for command lines and command names; nil: none
	Tree bool           // also descendants that hold a GPU
	Yes  bool           // also if the descendants of a pid belong to several servers

	Ranks *filter.Filter // selects processes by rank; nil: all
}

// Process is a selected or examined process.
type Process struct {
	PID        int
	StartTicks uint64 // 0: not known
	Command    string
	parent     int // 0: not known
}

// ProcessOf returns a process of the process list.
func ProcessOf(k target.ProcInfo) Process {
	return Process{k.PID, k.StartTicks, k.Comm, k.Parent}
}

// isSame compares the pids and, if both are known, the start times.
func (c Process) isSame(other Process) bool {
	return c.PID == other.PID && (c.StartTicks == other.StartTicks || c.StartTicks == 0 || other.StartTicks == 0)
}

// Choice is the result of a selection.
type Choice struct {
	First   int       // the pid for the trace's file name
	roots   []int     // pids that the user gave, or that matched the name
	Targets []Process // in the order of attaching
	Passed  []Process // descendants without a GPU
	Hidden  []Process // this user may not read these
	Ranks   []Ranked  // processes that are left out because of their rank
}

// Alone reports whether the only target is the one pid that was given.
func (c *Choice) Alone(s Selection) bool {
	return s.Name == nil && len(s.PIDs) == 1 && len(c.Targets) == 1 && c.Targets[0].PID == s.PIDs[0]
}

// choose finds the processes without touching any.
func (s Selection) choose() (*Choice, error) {
	tree, err := target.ReadProcTree()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	c := &Choice{}
	for _, pid := range s.PIDs {
		c.roots = append(c.roots, pid)
		if root := Glance(pid); !s.Tree || !c.addTree(root, tree) {
			c.Targets = add(c.Targets, root)
		}
	}
	if s.Name != nil {
		if err := s.addNamed(c, tree); err != nil {
			return nil, err
		}
	}
	// A process that is passed over below one root may be a target below another.
	c.Passed = slices.DeleteFunc(c.Passed, func(p Process) bool { return contains(c.Targets, p.PID) })
	switch {
	case len(s.PIDs) > 0:
		c.First = s.PIDs[0]
	case len(c.Targets) > 0:
		c.First = c.Targets[0].PID
	default:
		return nil, s.noneHolds(c)
	}
	return c, nil
}

// addTree adds the descendants of root that hold a GPU, and root itself if it holds one; if
// not, root is passed over. It returns false, and adds nothing, if no descendant holds one.
func (c *Choice) addTree(root Process, tree target.ProcTree) bool {
	var holders []Process
	below := &Choice{}
	for _, k := range tree.Descendants(root.PID) {
		if holds, err := holdsGPU(k.PID, k.Parent); holds {
			holders = append(holders, ProcessOf(k))
		} else {
			below.passOver(ProcessOf(k), err)
		}
	}
	c.Hidden = add(c.Hidden, below.Hidden...)
	if len(holders) == 0 {
		return false
	}
	if holds, _ := holdsGPU(root.PID, 0); holds {
		c.Targets = add(c.Targets, root)
	} else {
		c.Passed = add(c.Passed, root)
	}
	c.Targets = add(c.Targets, holders...)
	c.Passed = add(c.Passed, below.Passed...)
	return true
}

// passOver notes a process that does not hold a GPU, by the error of its examination.
func (c *Choice) passOver(one Process, err error) {
	switch {
	case errors.Is(err, target.ErrDenied):
		c.Hidden = add(c.Hidden, one)
	case err == nil || !target.IsAbsent(err):
		c.Passed = add(c.Passed, one)
	}
}

// holdsGPU reports whether a process has the ROCm runtime mapped and the GPU driver open. A
// forked copy that has inherited the open driver from its parent does not count; with parent
// 0, holdsGPU does not check this.
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

// isCopyOf reports whether t has inherited the open driver from its parent by fork.
func isCopyOf(t *target.Target, parent int) bool {
	above, err := target.OpenLight(parent)
	if err != nil {
		return false // it has ended: nothing to compare with
	}
	defer above.Close()
	return t.InheritedDriver(above)
}

// Glance returns what can be read about a process.
func Glance(pid int) Process {
	t, err := target.OpenLight(pid)
	if err != nil {
		return Process{PID: pid}
	}
	defer t.Close()
	return Process{pid, t.StartTicks, t.Comm, t.Parent}
}

func contains(list []Process, pid int) bool {
	return slices.ContainsFunc(list, func(c Process) bool { return c.PID == pid })
}

// add appends the processes that are not in list yet.
func add(list []Process, more ...Process) []Process {
	for _, m := range more {
		if !contains(list, m.PID) {
			list = append(list, m)
		}
	}
	return list
}
