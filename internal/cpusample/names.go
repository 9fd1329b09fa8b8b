package cpusample

import (
	"bytes"
	"io"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// namesLimit is how long the search for names may take: a server's filesystem need not answer.
const namesLimit = 10 * time.Second

// moduleNames are the named frames of a module.
type moduleNames struct {
	frames   []cputrace.Frame
	unopened bool // its file could not be opened
	unlined  bool // its line table could not be read
}

// names returns the native frames with their functions and their addresses in their files, as far as those are known in
// time. It is the last to use the process's memory, and closes it.
func (p *Process) names() (named []cputrace.Frame) {
	found, over := make(chan moduleNames), make(chan struct{})
	defer close(over)
	go func() {
		defer p.memory.Close()
		defer close(found)
		p.findNames(found, over)
	}()
	timer := time.NewTimer(namesLimit)
	defer timer.Stop()
	unopened, unlined := 0, 0
	for {
		select {
		case m, more := <-found:
			if m.unopened {
				unopened++
			}
			if m.unlined {
				unlined++
			}
			if named = append(named, m.frames...); more {
				continue
			}
		case <-timer.C:
			p.note("names of functions, source lines: not all files were read in time")
		}
		break
	}
	if unopened > 0 {
		p.note("names of functions: " + humanize.Things(int64(unopened), "file") + " could not be opened")
	}
	if unlined > 0 {
		p.note("source lines: " + humanize.Things(int64(unlined), "file") + " could not be read")
	}
	return named
}

// findNames sends the names of each module, and then the names with source lines, which take longer to find, until over is
// closed.
func (p *Process) findNames(found chan<- moduleNames, over <-chan struct{}) {
	frames := map[int][]cputrace.Frame{} // by module
	offsets := map[uint32]uint64{}
	for f, id := range p.tree.frames {
		if f.kind == cputrace.Native && f.module != noModule {
			frames[f.module] = append(frames[f.module], cputrace.Frame{ID: id, Kind: f.kind, File: f.file, Object: f.file})
			offsets[id] = f.offset
		}
	}
	var readable tracedb.ReadableNames
	named := map[int][]cputrace.Frame{}
	for id, list := range frames {
		of := p.namesOf(p.code.modules[id], list, offsets, &readable)
		named[id] = slices.Clone(of.frames)
		select {
		case found <- of:
		case <-over:
			return
		}
	}
	for id, list := range named {
		select {
		case found <- p.linesOf(p.code.modules[id], list, over):
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
	if debug, closer := p.openDebug(file, m.mapped.Path); debug != nil {
		defer closer()
		for at, name := range debug.Functions(wanted) {
			functions[at] = name
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
