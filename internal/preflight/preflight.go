// Package preflight checks everything that could prevent an attach, before a target is touched. An attach makes the checks up to the first one that fails; a Diagnosis
// (doctor, ps) makes all of them, and predicts the attach.
package preflight

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/payload"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// LeastSpaceBytes must be free on the trace's filesystem.
const LeastSpaceBytes = 64 << 20

// Request is the part of a recording's options that a preflight checks.
type Request struct {
	PID     int
	Output  string // template of the trace's path: %p pid, %h host, %t time
	Append  bool   // add a session to an existing trace
	Force   bool   // replace an existing file by the trace, once the trace is complete
	Library []byte // the payload; nil: the one that is built in
	Version string // of this tool
}

// Preflight is the result of the checks.
type Preflight struct {
	request Request

	Library []byte // the payload
	Build   []byte // its build id
	Place   tracedb.Place
	Target  *target.Target // Close closes it
	Facts   *target.Facts
}

// New returns a preflight that has checked nothing yet.
func New(r Request) Preflight { return Preflight{request: r} }

// check is one check of a preflight. Its error is the reason that prevents an attach.
type check struct {
	name     string
	lookedAt string
	do       func(*Preflight) error
	found    func(*Preflight) string // a short text for a check that has not failed

	about string // ofMachine: it needs no process; ofProcess: it needs an open one
}

// checks are the checks of every attach, in this order, and of doctor, whose verdict is the
// first one that fails.
var checks = []check{
	{
		name: "payload", lookedAt: "the library in this tool, its build id",
		do: (*Preflight).findPayload, found: (*Preflight).describePayload, about: ofMachine,
	},
	{
		name: "output", lookedAt: "the trace's folder: rights, free space, an older trace",
		do: (*Preflight).findPlace, found: (*Preflight).describePlace, about: ofMachine,
	},
	{
		name: "process", lookedAt: "/proc/PID: state, tracer, the right to open its memory",
		do: (*Preflight).open, found: (*Preflight).describeProcess,
	},
	{
		name: "program", lookedAt: "architecture, C library, ROCm runtime, seccomp mode, its own /proc, shadow stack",
		do: (*Preflight).examine, found: (*Preflight).describeProgram, about: ofProcess,
	},
}

// processChecks returns the checks of the process.
func processChecks() []check {
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return c.about == ofMachine })
}

// machineOnly returns the checks that need no process.
func machineOnly() []check {
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return c.about != ofMachine })
}

// Check makes all checks up to the first one that fails, and returns its error.
func (p *Preflight) Check() error { return p.make(checks) }

// CheckProcess makes the checks of the process.
func (p *Preflight) CheckProcess() error { return p.make(processChecks()) }

// CheckMachine makes the checks that need no process.
func (p *Preflight) CheckMachine() error { return p.make(machineOnly()) }

func (p *Preflight) make(list []check) error {
	for _, c := range list {
		if err := c.do(p); err != nil {
			return err
		}
	}
	return nil
}

func (p *Preflight) findPayload() error {
	var err error
	if p.Library = p.request.Library; p.Library == nil {
		if p.Library, err = payload.Library(); err != nil {
			return &failure.LibraryError{Err: err}
		}
	}
	if p.Build, err = payload.BuildID(p.Library); err != nil {
		return &failure.LibraryError{Err: err}
	}
	return nil
}

func (p *Preflight) findPlace() error {
	path, err := OutputPath(p.request.Output, p.request.PID, 1, time.Now())
	if err != nil {
		return err
	}
	check := tracedb.Check
	switch {
	case p.request.Append:
		check = tracedb.CheckExtend
	case p.request.Force:
		check = tracedb.CheckReplace
	}
	p.Place, err = check(path, LeastSpaceBytes)
	return err
}

func (p *Preflight) open() error {
	var err error
	p.Target, err = target.Open(p.request.PID)
	return err
}

func (p *Preflight) examine() error {
	facts, err := p.Target.Preflight()
	if err != nil {
		return err
	}
	if p.Facts = facts; len(facts.Problems) > 0 {
		return facts.Problems[0]
	}
	return nil
}

func (p *Preflight) describePayload() string {
	return fmt.Sprintf("build %x, %s", p.Build, humanize.Bytes(len(p.Library)))
}

func (p *Preflight) describePlace() string {
	where := fmt.Sprintf("%s, %s free", filepath.Dir(p.Place.Path), humanize.Bytes(p.Place.FreeBytes))
	if p.Place.Filesystem != "" {
		where += ", on " + p.Place.Filesystem
	}
	return where
}

func (p *Preflight) describeProcess() string {
	return fmt.Sprintf("%s, of uid %d, may be traced", p.Target.Comm, p.Target.UID)
}

func (p *Preflight) describeProgram() string {
	return fmt.Sprintf("%s, %s, %s, %s", p.Facts.Machine, p.Facts.Libc, humanize.Things(p.Facts.Threads, "thread"), strings.Join(p.Facts.HSA, ", "))
}

// Close closes everything that the checks have opened.
func (p *Preflight) Close() {
	if p.Target != nil {
		p.Target.Close()
	}
}
