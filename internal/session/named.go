package session

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// addNamed chooses the processes with a command line that matches, and those below
// them: a server's name may be in its front end's only. Who holds no GPU is passed
// over.
func (s Selection) addNamed(c *choice, families target.ProcTree) error {
	named, silent := lookForName(s.Name, families)
	if len(named) == 0 {
		return s.noneMatches(silent)
	}
	for _, k := range named {
		if s.Tree && slices.ContainsFunc(families.Ancestors(k.PID), func(pid int) bool { return isKin(named, pid) }) {
			continue // it is in that one's tree
		}
		c.roots = append(c.roots, k.PID)
		if one := candidateOf(k); !s.Tree || !c.addTree(one, families) {
			c.addHolder(one)
		}
	}
	return nil
}

// addHolder chooses a process if it holds a GPU.
func (c *choice) addHolder(one candidate) {
	holds, err := holdsGPU(one.pid, 0)
	if holds {
		c.targets = add(c.targets, one)
	} else {
		c.passOver(one, err)
	}
}

// lookForName lists the processes that name matches, by pid. This one and those
// above it (sudo, a shell) have the pattern itself in their command lines, and are
// not meant. silent counts those that could not be looked at.
func lookForName(name *regexp.Regexp, families target.ProcTree) (named []target.ProcInfo, silent int) {
	ours := append(families.Ancestors(os.Getpid()), os.Getpid())
	deadline := time.Now().Add(listLimit)
	for _, pid := range slices.Sorted(maps.Keys(families)) {
		if slices.Contains(ours, pid) {
			continue
		}
		k := families[pid]
		line, inTime := within(min(glanceLimit, time.Until(deadline)), func() string { return commandLine(k) })
		switch {
		case !inTime:
			silent++
		case name.MatchString(line), name.MatchString(k.Comm):
			named = append(named, k)
		}
	}
	return named, silent
}

// commandLine is "" where there is none: of kernel threads, and of who has ended.
func commandLine(k target.ProcInfo) string {
	t, err := target.OpenLight(k.PID)
	if err != nil {
		return ""
	}
	defer t.Close()
	line, _ := t.CommandLine()
	return line
}

func isKin(list []target.ProcInfo, pid int) bool {
	return slices.ContainsFunc(list, func(k target.ProcInfo) bool { return k.PID == pid })
}

func (s Selection) noneMatches(silent int) *failure.Error {
	cause := "no command line of a process here matches it"
	if silent > 0 {
		cause += fmt.Sprintf("; %d could not be read", silent)
	}
	return &failure.Error{
		What: fmt.Sprintf("no process is named %q", s.Name), Cause: cause, Fix: "rtl-attach ps lists those with a GPU",
		Target: failure.Untouched, Code: failure.NotPermitted, Err: errNoTarget,
	}
}

func (s Selection) noneHolds(c *choice) *failure.Error {
	f := &failure.Error{
		What:  fmt.Sprintf("no process that is named %q holds a GPU", s.Name),
		Cause: "none has the ROCm runtime mapped and its driver open: " + names(c.passed), Fix: "rtl-attach ps says what they hold",
		Target: failure.Untouched, Code: failure.Unsuitable, Err: errNoTarget,
	}
	if len(c.hidden) > 0 {
		f.Cause, f.Fix, f.Code = "this user may not look into them: "+names(c.hidden), sudoFix, failure.NotPermitted
	}
	return f
}

var errNoTarget = errors.New("no such process")
