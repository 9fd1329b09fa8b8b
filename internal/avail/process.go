package avail

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

// Process is what can be recorded of a running process. Its JSON form is stable (docs/json.md). The process
// chooses its texts: sanitize them before printing.
type Process struct {
	Version   string     `json:"version"`
	PID       int        `json:"pid"`
	Command   string     `json:"command"`
	ROCm      string     `json:"rocm"` // "6.4.3", or "runtime 1.5.0"
	Libraries []Library  `json:"libraries"`
	Kinds     []Support  `json:"kinds"`
	Tools     []HookTool `json:"tools"` // that have replaced functions of the HSA runtime
}

// Library is a library that a kind of record needs.
type Library struct {
	Name    string `json:"name"`    // as its file's name begins
	Path    string `json:"path"`    // in the process's root; "": not loaded
	Version string `json:"version"` // by the file's name; "": it has none
}

// Support is what can be recorded of one kind.
type Support struct {
	Kind     string `json:"kind"`
	Flag     string `json:"flag"`
	Result   Result `json:"result"`
	Way      string `json:"way,omitempty"` // of calls: table, got, or either, which only the attach can tell
	Known    int    `json:"known"`         // functions of the kind that this version knows
	Exported int    `json:"exported"`      // of these, how many the library exports
	Why      string `json:"why,omitempty"`
}

// Result is whether a kind can be recorded.
type Result string

// The results.
const (
	Yes     Result = "yes"
	No      Result = "no"
	Unclear Result = "unclear"
)

// Values of Support.Way.
const (
	WayTable  = "table"
	WayGOT    = "got"
	WayEither = "either"
)

// HookTool is a file whose code has replaced functions of the HSA runtime.
type HookTool struct {
	Path      string `json:"path"` // "": memory without a file
	Own       bool   `json:"own"`  // a payload of this tool
	Functions int    `json:"functions"`
}

// Inspect finds out what can be recorded of a process. It stops nothing and writes nothing. version is this
// tool's.
func Inspect(pid int, version string) (*Process, error) {
	p, err := watchdog.Do(pid, func() (*Process, error) {
		t, err := target.Open(pid)
		if err != nil {
			return nil, err
		}
		defer t.Close()
		p, err := inspect(t)
		if err == nil {
			err = t.CheckIdentity() // what was read may be of an ending process
		}
		return p, err
	})
	if err != nil {
		return nil, failure.Explain("look into", pid, err, failure.Untouched)
	}
	p.Version = version
	return p, nil
}

// The names of libraries, as their files' names begin.
const (
	libHSA      = "libhsa-runtime64.so"
	libHIP      = "libamdhip64.so"
	libRCCL     = "librccl.so"
	libROCTx    = "libroctx64.so"
	libSDKROCTx = "librocprofiler-sdk-roctx.so"
)

// inspection is a process that is being inspected. All that is read from its memory is hostile input.
type inspection struct {
	mem    io.ReaderAt // bounded, if it is a target's
	maps   []target.Map
	loaded map[string]*library
}

// library is a loaded library; its image is nil if it could not be read.
type library struct {
	path  string
	image *target.Image
	err   error
}

func inspect(t *target.Target) (*Process, error) {
	maps, err := t.Maps()
	if err != nil {
		return nil, err
	}
	runtimes := target.Runtimes(maps)
	if len(runtimes) == 0 {
		return nil, fmt.Errorf("pid %d (%s): %w", t.PID, t.Comm, target.ErrNoHSA)
	}
	in := &inspection{mem: t, maps: maps, loaded: map[string]*library{}}
	p := in.process()
	p.PID, p.Command, p.ROCm = t.PID, t.Comm, discover.ROCmVersion(runtimes[0])
	return p, nil
}

// process returns what can be recorded.
func (in *inspection) process() *Process {
	p := &Process{Kinds: []Support{}}
	for _, name := range []string{libHSA, libHIP, libRCCL, libROCTx, libSDKROCTx} {
		p.Libraries = append(p.Libraries, in.load(name))
	}
	for _, k := range all.Kinds {
		s := in.support(k.ID)
		s.Kind, s.Flag = k.ID.String(), k.Flag
		p.Kinds = append(p.Kinds, s)
	}
	p.Tools = in.tools()
	return p
}

// load looks for the first mapping of a library's file.
func (in *inspection) load(name string) Library {
	for _, m := range in.maps {
		if m.Offset != 0 || m.Inode == 0 || !strings.HasPrefix(path.Base(m.Path), name) {
			continue
		}
		l := &library{path: m.Path}
		l.image, l.err = target.OpenImage(in.mem, m.Start)
		if in.loaded[name] = l; l.err == nil {
			break // otherwise a later mapping of the file may have its header
		}
	}
	l := in.loaded[name]
	if l == nil {
		return Library{Name: name}
	}
	_, version, _ := strings.Cut(path.Base(l.path), ".so.")
	return Library{Name: name, Path: l.path, Version: version}
}

// exports reports whether a loaded library exports a function.
func (l *library) exports(name string) bool {
	_, found, err := l.image.Symbol(name)
	if err != nil {
		l.err = err
	}
	return found && err == nil
}

// count returns how many functions of a kind this version can record, and how many of these the library
// exports.
func (l *library) count(id ring.Kind) (known, exported int) {
	for i := range function.Table() {
		f := &function.Table()[i]
		if f.Kind != id || f.When == function.Never {
			continue
		}
		known++
		if l != nil && l.err == nil && l.exports(f.Name) {
			exported++
		}
	}
	return known, exported
}
