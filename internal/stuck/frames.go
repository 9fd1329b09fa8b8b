package stuck

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/apitable"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// named is a frame of a stack.
type named struct {
	name string // of the function, or of the file with the offset in it
	file string // base name; "": none
	pc   target.Addr
	sp   target.Addr
}

// name names the function at an address.
func (s *stacks) name(pc target.Addr) named {
	m, ok := target.FindMap(s.maps, pc)
	if !ok || m.Path == "" {
		return named{name: fmt.Sprintf("%#x", uint64(pc))}
	}
	n := named{file: path.Base(m.Path)}
	image, ok := s.unwinder.ImageAt(pc)
	if !ok {
		n.name = n.file
		return n
	}
	functions, known := s.functions[image.Base]
	if !known {
		functions, _ = s.t.Functions(s.maps, m.Start)
		if s.functions[image.Base] = functions; strings.HasPrefix(n.file, libHSA) || strings.HasPrefix(n.file, libHIP) {
			s.noteSlots(image.Base, functions)
		}
	}
	switch name := target.FunctionAt(functions, pc-image.Base); {
	case name != "":
		n.name = readable(name)
	case s.slots[s.unwinder.FunctionStart(pc)] != "":
		n.name = s.slots[s.unwinder.FunctionStart(pc)]
	default:
		n.name = fmt.Sprintf("%s+%#x", n.file, uint64(pc-image.Base))
	}
	return n
}

// noteSlots notes the functions behind the slots of the tables that HSA and, since version 6, HIP have. The exported
// functions jump there, and are in no stack.
func (s *stacks) noteSlots(bias target.Addr, functions []target.Symbol) {
	for _, f := range functions {
		decode := apitable.Decode
		switch {
		case strings.HasPrefix(f.Name, "hip"):
			decode = apitable.DecodeGetter
		case !strings.HasPrefix(f.Name, "hsa_"):
			continue
		}
		stub, ok := decode(s.t, uint64(bias+f.Start))
		if !ok {
			continue
		}
		if at, err := s.t.Uint64(target.Addr(stub.Slot)); err == nil {
			s.slots[target.Addr(at)] = f.Name
		}
	}
}

const (
	libHSA = "libhsa-runtime64.so"
	libHIP = "libamdhip64.so"
)

// ofROCm and ofSystem match the files of ROCm's libraries, and of those that start threads.
var (
	ofROCm   = regexp.MustCompile(`^(libamdhip64|libhsa-runtime64|libhsakmt|librccl|libnccl)\.so`)
	ofSystem = regexp.MustCompile(`^(libc|libpthread|libstdc\+\+|ld-linux-x86-64)[.-]`)
	ofAPI    = regexp.MustCompile(`^(hip[A-Z]|hsa_|nccl[A-Z]|rccl[A-Z])`)
)

// within finds the outermost function of ROCm that the program has called: its name, or that of its library, and
// the number of its frame; "": none. frames are the innermost first; whole says that the last one is the thread's
// start. A thread of a library's own is in no such function.
func within(frames []named, whole bool) (string, int) {
	program := !whole
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		if !ofROCm.MatchString(f.file) && !ofAPI.MatchString(f.name) {
			program = program || !ofSystem.MatchString(f.file)
			continue
		}
		if !program {
			return "", 0
		}
		for inner := i; inner >= 0; inner-- {
			if ofAPI.MatchString(frames[inner].name) {
				return frames[inner].name, i
			}
		}
		library, _, _ := strings.Cut(f.file, ".")
		return "a function of " + library, i
	}
	return "", 0
}

// calledBack returns the function of the program that a library of ROCm has called and that has not returned; "": none. A
// function is the program's if its file is the executable, or has called ROCm in this stack.
func calledBack(frames []named, program string) string {
	own := map[string]bool{program: program != ""}
	inROCm := false
	for i := len(frames) - 1; i >= 0; i-- {
		switch f := frames[i]; {
		case ofROCm.MatchString(f.file):
			inROCm = true
		case inROCm && own[f.file]:
			return f.name
		case !inROCm && !ofSystem.MatchString(f.file):
			own[f.file] = f.file != ""
		}
	}
	return ""
}

// programOf returns the base name of the executable; "": not known.
func programOf(t *target.Target, maps []target.Map) string {
	stat, err := t.ThreadStat(t.PID)
	if err != nil {
		return ""
	}
	m, ok := target.FindMap(maps, target.Addr(stat.CodeStart))
	if !ok || m.Path == "" {
		return ""
	}
	return path.Base(m.Path)
}
