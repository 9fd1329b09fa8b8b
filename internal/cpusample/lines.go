package cpusample

import (
	"path"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/srcline"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// debugFolder is where separate files with debug information are.
const debugFolder = "/usr/lib/debug"

// linesOf returns those of a module's named frames that have a source line. What the process's files make of debug/elf and its
// decompressors does not end the tool.
func (p *Process) linesOf(m module, frames []cputrace.Frame, over <-chan struct{}) (lined moduleNames) {
	defer func() {
		if recover() != nil {
			lined = moduleNames{unlined: true}
		}
	}()
	r, closer, err := p.openModule(m)
	if err != nil {
		return lined
	}
	defer closer()
	file, err := target.ReadFile(r)
	if err != nil {
		return lined
	}
	wanted := make([]uint64, len(frames))
	for i, f := range frames {
		wanted[i] = f.Offset
	}
	code := func(at uint64) bool { return file.IsCode(target.Addr(at)) }
	goOn := func() bool {
		select {
		case <-over:
			return false
		default:
			return true
		}
	}
	lines := srcline.Find(file, code, wanted, goOn)
	if len(lines) == 0 && goOn() {
		if debug, closer := p.openDebug(file, m.mapped.Path); debug != nil {
			defer closer()
			lines = srcline.Find(debug, code, wanted, goOn)
		}
	}
	harmless := map[string]string{}
	for _, f := range frames {
		line, known := lines[f.Offset]
		if !known || line.File == "" {
			continue
		}
		if _, known := harmless[line.File]; !known {
			harmless[line.File] = sanitize.Text(line.File)
		}
		f.File, f.Line = harmless[line.File], line.Line
		lined.frames = append(lined.frames, f)
	}
	return lined
}

// openDebug opens the file with a module's debug information: by its build ID, or by its debug link, where GDB looks for them
// ("Separate Debug Files"). nil: there is none.
func (p *Process) openDebug(file *target.File, module string) (*target.File, func()) {
	var places []string
	if id := file.BuildID(); len(id) > 2 {
		places = append(places, debugFolder+"/.build-id/"+id[:2]+"/"+id[2:]+".debug")
	}
	if name, _ := file.DebugLink(); name != "" && path.IsAbs(module) {
		folder := path.Dir(module)
		places = append(places, path.Join(folder, name), path.Join(folder, ".debug", name), path.Join(debugFolder, folder, name))
	}
	for _, place := range places {
		f, err := p.memory.OpenPath(place)
		if err != nil {
			continue
		}
		if debug, err := target.ReadFile(f); err == nil && debug.IsDebugOf(file) {
			return debug, func() { _ = f.Close() }
		}
		_ = f.Close()
	}
	return nil, nil
}
