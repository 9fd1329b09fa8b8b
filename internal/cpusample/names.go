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

// names returns the native frames with their functions, source lines and addresses in their files, as far as those are known
// in time. It is the last to use the process's memory, and closes it.
func (p *Process) names() []cputrace.Frame {
	wanted := p.nativeFrames(func(uint32) bool { return true })
	named, notes := p.namesIn(func(found chan<- moduleNames, over <-chan struct{}) {
		defer p.files.close(p.memory)
		p.findLines(wanted, p.findNames(wanted, found, over), found, over)
	})
	for _, note := range notes {
		p.note(note)
	}
	return named
}

// namesIn returns what find finds in time, and what it did not.
func (p *Process) namesIn(find func(found chan<- moduleNames, over <-chan struct{})) (named []cputrace.Frame, notes []string) {
	found, over := make(chan moduleNames), make(chan struct{})
	defer close(over)
	go func() {
		defer close(found)
		find(found, over)
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
			notes = append(notes, "names of functions, source lines: not all files were read in time")
		}
		break
	}
	if unopened > 0 {
		notes = append(notes, "names of functions: "+humanize.Things(int64(unopened), "file")+" could not be opened")
	}
	if unlined > 0 {
		notes = append(notes, "source lines: "+humanize.Things(int64(unlined), "file")+" could not be read")
	}
	return named, notes
}

// native are native frames without names, by module.
type native struct {
	frames  map[int][]cputrace.Frame
	offsets map[uint32]uint64
	modules []module
}

// nativeFrames returns the native frames that are wanted, by id. recorder.mu protects the tree until Stop.
func (p *Process) nativeFrames(wants func(id uint32) bool) native {
	n := native{map[int][]cputrace.Frame{}, map[uint32]uint64{}, p.code.modules}
	for f, id := range p.tree.frames {
		if f.kind == cputrace.Native && f.module != noModule && wants(id) {
			n.frames[f.module] = append(n.frames[f.module], cputrace.Frame{ID: id, Kind: f.kind, File: f.file, Object: f.file})
			n.offsets[id] = f.offset
		}
	}
	return n
}

// findNames sends the names of each module until over is closed, and returns them by module.
func (p *Process) findNames(n native, found chan<- moduleNames, over <-chan struct{}) map[int][]cputrace.Frame {
	var readable tracedb.ReadableNames
	named := map[int][]cputrace.Frame{}
	for id, list := range n.frames {
		of := p.namesOf(n.modules[id], list, n.offsets, &readable)
		named[id] = slices.Clone(of.frames)
		select {
		case found <- of:
		case <-over:
			return nil
		}
	}
	return named
}

// findLines sends named frames with their source lines, which take longer to find, until over is closed.
func (p *Process) findLines(n native, named map[int][]cputrace.Frame, found chan<- moduleNames, over <-chan struct{}) {
	for id, list := range named {
		select {
		case found <- p.linesOf(n.modules[id], list, over):
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
