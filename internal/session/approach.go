package session

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/payload"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// leastSpaceBytes must be free where the trace goes.
const leastSpaceBytes = 64 << 20

// An approach is what is known before a target is touched.
type approach struct {
	o      Options
	build  []byte
	place  tracedb.Place
	target *target.Target
	facts  *target.Facts
}

// A step of an approach fails with what stands in the way of an attach.
type step struct {
	name     string
	lookedAt string
	do       func(*approach) error
	found    func(*approach) string // in a few words, when it has not failed

	about string // ofMachine: it needs no process; ofProcess: it needs one that is open
}

// steps are made by every attach, in this order, and by doctor: its verdict is
// the first one's that fails.
var steps = []step{
	{
		name: "payload", lookedAt: "the library in this tool, its build id",
		do: (*approach).findPayload, found: (*approach).describePayload, about: ofMachine,
	},
	{
		name: "output", lookedAt: "the trace's folder: rights, free space, an older trace",
		do: (*approach).findPlace, found: (*approach).describePlace, about: ofMachine,
	},
	{
		name: "process", lookedAt: "/proc/PID: state, tracer, the right to open its memory",
		do: (*approach).open, found: (*approach).describeProcess,
	},
	{
		name: "program", lookedAt: "architecture, C library, ROCm runtime, seccomp mode, its own /proc, shadow stack",
		do: (*approach).examine, found: (*approach).describeProgram, about: ofProcess,
	},
}

func (a *approach) findPayload() error {
	var err error
	if a.o.Library == nil {
		if a.o.Library, err = payload.Library(); err != nil {
			return &failure.LibraryError{Err: err}
		}
	}
	if a.build, err = payload.BuildID(a.o.Library); err != nil {
		return &failure.LibraryError{Err: err}
	}
	return nil
}

func (a *approach) findPlace() error {
	path, err := outputPath(a.o.Output, a.o.PID, time.Now())
	if err != nil {
		return err
	}
	check := tracedb.Check
	switch {
	case a.o.Append:
		check = tracedb.CheckExtend
	case a.o.Force:
		check = tracedb.CheckReplace
	}
	a.place, err = check(path, leastSpaceBytes)
	return err
}

func (a *approach) open() error {
	var err error
	a.target, err = target.Open(a.o.PID)
	return err
}

func (a *approach) examine() error {
	facts, err := a.target.Preflight()
	if err != nil {
		return err
	}
	if a.facts = facts; len(facts.Problems) > 0 {
		return facts.Problems[0]
	}
	return nil
}

func (a *approach) describePayload() string {
	return fmt.Sprintf("build %x, %s", a.build, humanize.Bytes(len(a.o.Library)))
}

func (a *approach) describePlace() string {
	where := fmt.Sprintf("%s, %s free", filepath.Dir(a.place.Path), humanize.Bytes(a.place.FreeBytes))
	if a.place.Filesystem != "" {
		where += ", on " + a.place.Filesystem
	}
	return where
}

func (a *approach) describeProcess() string {
	return fmt.Sprintf("%s, of uid %d, may be traced", a.target.Comm, a.target.UID)
}

func (a *approach) describeProgram() string {
	return fmt.Sprintf("%s, %s, %s, %s", a.facts.Machine, a.facts.Libc, humanize.Things(a.facts.Threads, "thread"), strings.Join(a.facts.HSA, ", "))
}

func (a *approach) close() {
	if a.target != nil {
		a.target.Close()
	}
}
