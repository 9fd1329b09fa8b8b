package cpusample

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// debugFolder is where separate debug files are, by build ID.
const debugFolder = "/usr/lib/debug/.build-id/"

// namesLimit is how long the search for names may take: a server's filesystem need not answer.
const namesLimit = 10 * time.Second

// moduleNames are the named frames of a module.
type moduleNames struct {
	frames   []cputrace.Frame
	unopened bool // its file could not be opened
}

// names returns the native frames with their functions and their addresses in their files, as far as those are known in
// time. It is the last to use the process's memory, and closes it.
func (p *Process) names() []cputrace.Frame {
	wanted := p.nativeFrames(func(uint32) bool { return true })
	named, note := p.namesIn(func(found chan<- moduleNames, over <-chan struct{}) {
		defer p.files.close(p.memory)
		p.findNames(wanted, found, over)
	})
	if note != "" {
		p.note("names of functions: " + note)
	}
	return named
}

// namesIn returns what find finds in time, and what it did not.
func (p *Process) namesIn(find func(found chan<- moduleNames, over <-chan struct{})) (named []cputrace.Frame, note string) {
	found, over := make(chan moduleNames), make(chan struct{})
	defer close(over)
	go func() {
		defer close(found)
		find(found, over)
	}()
	timer := time.NewTimer(namesLimit)
	defer timer.Stop()
	unopened := 0
	for {
		select {
		case m, more := <-found:
			if m.unopened {
				unopened++
			}
			if named = append(named, m.frames...); more {
				continue
			}
		case <-timer.C:
			return named, "a file was not readable in time"
		}
		break
	}
	if unopened > 0 {
		note = humanize.Things(int64(unopened), "file") + " could not be opened"
	}
	return named, note
}

// native are native frames without names, by module.
type native struct {
	frames  map[int][]cputrace.Frame
	offsets map[uint32]uint64
	modules []module
}

// nativeFrames returns the native frames that are wanted, by id. The recorder's gate protects the tree until Stop.
func (p *Process) nativeFrames(wants func(id uint32) bool) native {
	n := native{map[int][]cputrace.Frame{}, map[uint32]uint64{}, p.code.modules}
	for f, id := range p.tree.frames {
		if f.kind == cputrace.Native && f.module != noModule && wants(id) {
			n.frames[f.module] = append(n.frames[f.module], cputrace.Frame{ID: id, Kind: f.kind, File: f.file})
			n.offsets[id] = f.offset
		}
	}
	return n
}

// findNames sends the names of each module until over is closed.
func (p *Process) findNames(n native, found chan<- moduleNames, over <-chan struct{}) {
	var readable tracedb.ReadableNames
	for id, list := range n.frames {
		select {
		case found <- p.namesOf(n.modules[id], list, n.offsets, &readable):
		case <-over:
			return
		}
	}
}

// namesOf names the frames of one module.
func (p *Process) namesOf(m module, frames []cputrace.Frame, offsets map[uint32]uint64, readable *tracedb.ReadableNames) moduleNames {
	r, closer, err := p.openModule(m)
	if err != nil {
		return moduleNames{unopened: true}
	}
	defer closer()
	file, err := target.ReadFile(r)
	if err != nil {
		return moduleNames{}
	}
	var wanted []target.Addr
	named := frames[:0]
	for _, f := range frames {
		if at, ok := file.Address(offsets[f.ID]); ok {
			f.Offset, f.HasOffset = uint64(at), true
			named, wanted = append(named, f), append(wanted, at)
		}
	}
	functions := file.Functions(wanted)
	if debug := p.openDebug(file); debug != nil {
		defer debug.Close()
		if file, err := target.ReadFile(debug); err == nil {
			for at, name := range file.Functions(wanted) {
				functions[at] = name
			}
		}
	}
	for i := range named {
		if symbol := functions[target.Addr(named[i].Offset)]; symbol != "" {
			named[i].Name = sanitize.Text(readable.Of(symbol))
		}
	}
	return moduleNames{frames: named}
}

// openModule opens a module's file, or the image of what is in none.
func (p *Process) openModule(m module) (io.ReaderAt, func(), error) {
	if m.mapped.Inode == 0 {
		return bytes.NewReader(m.image), func() {}, nil
	}
	f, err := p.memory.OpenFile(m.mapped)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// openDebug opens the file with a module's debug symbols; nil: there is none.
func (p *Process) openDebug(file *target.File) *os.File {
	id := file.BuildID()
	if len(id) < 4 {
		return nil
	}
	f, err := p.memory.OpenPath(debugFolder + id[:2] + "/" + id[2:] + ".debug")
	if err != nil {
		return nil
	}
	return f
}
