package discover

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

// addNamed adds the processes whose command line matches, and their descendants: a server's
// name may be only in its front end's command line. It passes over processes without a GPU.
func (s Selection) addNamed(c *Choice, tree target.ProcTree) error {
	named, unread := lookForName(s.Name, tree)
	if len(named) == 0 {
		return s.noneMatches(unread)
	}
	for _, k := range named {
		if s.Tree && slices.ContainsFunc(tree.Ancestors(k.PID), func(pid int) bool { return includes(named, pid) }) {
			continue // it is a descendant of another match
		}
		c.roots = append(c.roots, k.PID)
		if one := ProcessOf(k); !s.Tree || !c.addTree(one, tree) {
			c.addHolder(one)
		}
	}
	return nil
}

// addHolder adds a process if it holds a GPU.
func (c *Choice) addHolder(one Process) {
	holds, err := holdsGPU(one.PID, 0)
	if holds {
		c.Targets = add(c.Targets, one)
	} else {
		c.passOver(one, err)
	}
}

// lookForName returns the processes that name matches, by pid. It excludes this process and
// its ancestors (sudo, a shell): their command lines have the pattern itself. unread is the
// number of processes that could not be read in time.
func lookForName(name *regexp.Regexp, tree target.ProcTree) (named []target.ProcInfo, unread int) {
	ours := append(tree.Ancestors(os.Getpid()), os.Getpid())
	deadline := time.Now().Add(ListLimit)
	for _, pid := range slices.Sorted(maps.Keys(tree)) {
		if slices.Contains(ours, pid) {
			continue
		}
		k := tree[pid]
		line, inTime := Within(min(LookLimit, time.Until(deadline)), func() string { return commandLine(k) })
		switch {
		case !inTime:
			unread++
		case name.MatchString(line), name.MatchString(k.Comm):
			named = append(named, k)
		}
	}
	return named, unread
}

// commandLine returns a process's command line; "" for kernel threads and ended processes.
func commandLine(k target.ProcInfo) string {
	t, err := target.OpenLight(k.PID)
	if err != nil {
		return ""
	}
	defer t.Close()
	line, _ := t.CommandLine()
	return line
}

func includes(list []target.ProcInfo, pid int) bool {
	return slices.ContainsFunc(list, func(k target.ProcInfo) bool { return k.PID == pid })
}

func (s Selection) noneMatches(unread int) *failure.Error {
	cause := "no command line of a process here matches it"
	if unread > 0 {
		cause += fmt.Sprintf("; %d could not be read", unread)
	}
	return &failure.Error{
		What: fmt.Sprintf("no process is named %q", s.Name), Cause: cause, Fix: "rtl-attach ps lists the processes with a GPU",
		Target: failure.Untouched, Code: failure.NotPermitted, Err: errNoTarget,
	}
}

func (s Selection) noneHolds(c *Choice) *failure.Error {
	f := &failure.Error{
		What:  fmt.Sprintf("no process that is named %q holds a GPU", s.Name),
		Cause: "none has the ROCm runtime mapped and its driver open: " + Names(c.Passed), Fix: "rtl-attach ps says what they hold",
		Target: failure.Untouched, Code: failure.Unsuitable, Err: errNoTarget,
	}
	if len(c.Hidden) > 0 {
		f.Cause, f.Fix, f.Code = "this user may not look into them: "+Names(c.Hidden), failure.SudoFix, failure.NotPermitted
	}
	return f
}

var errNoTarget = errors.New("no such process")
