package whyidle

import (
	"path"
	"regexp"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
)

// Place is where in a stack a reader looks for the cause.
type Place struct {
	App    Frame // the innermost frame of the application, or the innermost of all; no name and file: not known
	Inside Frame // the call of a library in which it was; no name and file: none
}

// Text returns the function's name, else the file's in brackets.
func (f Frame) Text() string {
	switch {
	case f.Name != "":
		return f.Name
	case f.File != "":
		return "[" + path.Base(f.File) + "]"
	}
	return "[not known]"
}

// Known reports whether a frame says anything.
func (f Frame) Known() bool { return f.Name != "" || f.File != "" }

// Library returns the base name of a native frame's ELF file; "" for others.
func (f Frame) Library() string {
	if object := f.ELF(); object != "" {
		return path.Base(object)
	}
	return ""
}

// ELF returns the ELF file of a native frame; "": not known, or another frame.
func (f Frame) ELF() string {
	switch {
	case f.Kind != cputrace.Native:
		return ""
	case f.Object == "" && f.Line == 0:
		return f.File
	}
	return f.Object
}

var (
	// systemLibraries are the libraries that no application is, without their versions.
	systemLibraries = regexp.MustCompile(`^(libc|libpthread|libm|libdl|librt|ld-linux[^.]*|ld|libstdc\+\+|libgcc_s|libgomp|libomp|\[vdso\]|linux-vdso|` +
		`libhsa-runtime64|libamdhip64|libhsakmt|libdrm[^.]*|librocm_smi64|libamd_smi|librccl|librocblas|libhipblas[^.]*|libMIOpen|` +
		`libnuma|libffi|_ctypes.*|libuv|libsoftgpu|librtl)([.-].*)?$`)
	// interpreter is Python's own native code.
	interpreter = regexp.MustCompile(`^(libpython[23].*|python[23.0-9d]*|_ctypes.*|libffi.*|_queue.*|_asyncio.*)$`)
	// standardLibrary is the path of Python's own modules.
	standardLibrary = regexp.MustCompile(`(^<frozen |/lib(64)?/python3[^/]*/[^/]+\.py$|/lib(64)?/python3[^/]*/(asyncio|concurrent|multiprocessing|importlib|ctypes|json|logging|http|email|unittest|collections|encodings|xml|urllib)/|^(threading|queue|selectors|socket|ssl|subprocess|contextlib|runpy)\.py$)`)
	// callMachinery are functions of Python that only pass a call on.
	callMachinery = regexp.MustCompile(`^(_?Py[A-Z_]|_ctypes|ffi_|_call_function|method_vectorcall|cfunction|vectorcall|slot_tp|type_call|PyCFuncPtr|_queue_|lock_PyThread|acquire_timed|time_sleep|pysleep|partial_|context_run|thread_run|pythread_wrapper|do_call)`)
)

func (f Frame) isSystem() bool {
	return f.Kind == cputrace.Native && (systemLibraries.MatchString(f.Library()) || interpreter.MatchString(f.Library()))
}

func (f Frame) isInterpreter() bool {
	return f.Kind == cputrace.Native && (interpreter.MatchString(f.Library()) || callMachinery.MatchString(f.Name))
}

// WithoutLines returns a place that is the same for all lines of its native functions.
func (p Place) WithoutLines() Place { return Place{p.App.withoutLine(), p.Inside.withoutLine()} }

func (f Frame) withoutLine() Frame {
	if object := f.ELF(); object != "" {
		f.File, f.Line = object, 0
	}
	return f
}

// PlaceOf chooses the frames of a stack, the innermost first, that tell a reader the cause: the innermost
// frame of the application, and the call in which it was. With Python frames, the application is the
// innermost Python code outside of the standard library; without, the innermost named native code outside
// of libc, HIP, ROCr and the like.
func PlaceOf(frames []Frame) (p Place) {
	at, python := appPython(frames)
	if at < 0 {
		at = appNative(frames)
	}
	if at < 0 {
		return innermost(frames)
	}
	p.App = frames[at]
	if python >= 0 && python != at {
		p.Inside = frames[python]
		return p
	}
	for i := at - 1; i >= 0; i-- { // the outermost call that says something
		if f := frames[i]; f.Kind == cputrace.Native && f.Name != "" && !f.isInterpreter() {
			p.Inside = f
			break
		}
	}
	return p
}

// appPython returns the innermost Python frame of the application and the innermost of all; -1: none. If
// all Python code is of the standard library, they are the same.
func appPython(frames []Frame) (app, innermost int) {
	app, innermost = -1, -1
	for i, f := range frames {
		if f.Kind != cputrace.Python {
			continue
		}
		if innermost < 0 {
			innermost = i
		}
		if !standardLibrary.MatchString(f.File) {
			return i, innermost
		}
	}
	return innermost, innermost
}

// appNative returns the innermost named native frame of the application; -1: none.
func appNative(frames []Frame) int {
	for i, f := range frames {
		if f.Kind == cputrace.Native && f.Name != "" && !f.isSystem() && !f.isInterpreter() {
			return i
		}
	}
	return -1
}

// innermost chooses a place of a stack that has only system libraries, or no names: the innermost named frame
// outside of libc, else the innermost named one.
func innermost(frames []Frame) (p Place) {
	for _, f := range frames {
		if f.Kind != cputrace.Native || f.Name == "" {
			continue
		}
		if !strings.HasPrefix(f.Library(), "libc.") {
			return Place{App: f}
		}
		if !p.App.Known() {
			p.App = f
		}
	}
	if !p.App.Known() && len(frames) > 0 {
		p.App = frames[0]
	}
	return p
}

// waitsForGIL reports whether a stack, the innermost frame first, waits for Python's global interpreter lock, by the names of
// functions: traces of former versions do not say where the lock is.
func waitsForGIL(frames []Frame) bool {
	for _, f := range frames {
		if f.Kind == cputrace.Python {
			return false // the lock is taken by the interpreter, called by this frame
		}
		if f.Name == "take_gil" {
			return true
		}
	}
	return false
}
