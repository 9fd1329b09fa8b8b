package whyidle

import (
	"math/rand/v2"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Questions of all GPUs come back in the order of their begins, also those that were in the file.
func TestQuestions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var qs Questions
	defer qs.Close()
	const gpus, each = 3, blockQuestions*2 + 7
	sum := int64(0)
	for gpu := range int64(gpus) {
		at := int64(0)
		for range each {
			at += 1 + random.Int64N(50)
			q := Question{GPU: gpu, Thread: at % 7, Span: traceread.Span{BeginNS: at, EndNS: at + 3}, UntilNS: at + 5}
			sum += q.Thread + q.EndNS + q.UntilNS
			if err := qs.Add(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // Find may read them again
		a, err := qs.rewind()
		if err != nil {
			t.Fatal(err)
		}
		n, got, last := 0, int64(0), int64(0)
		for a.nextNS() <= traceread.LatestNS {
			q, err := a.take()
			if err != nil || q.BeginNS < last || q.EndNS != q.BeginNS+3 {
				t.Fatalf("%+v after %d: %v", q, last, err)
			}
			n, got, last = n+1, got+q.Thread+q.EndNS+q.UntilNS, q.BeginNS
		}
		if n != gpus*each || got != sum {
			t.Errorf("%d questions, want %d; sum %d, want %d", n, gpus*each, got, sum)
		}
	}
}

func python(name, file string) Frame {
	return Frame{Kind: cputrace.Python, Name: name, File: file, Line: 7}
}

func native(name, file string) Frame { return Frame{Kind: cputrace.Native, Name: name, File: file} }

func TestPlaceOf(t *testing.T) {
	const libpython, libc, hip = "/usr/lib/libpython3.11.so.1.0", "/usr/lib/libc.so.6", "/opt/rocm/lib/libamdhip64.so.5"
	for name, c := range map[string]struct {
		stack       []Frame
		app, inside string
	}{
		"a library's wait, by the application": {[]Frame{
			native("futex_wait", libc), native("acquire_timed", libpython), python("Condition.wait", "/usr/lib/python3.11/threading.py"),
			python("Queue.get", "/usr/lib/python3.11/queue.py"), python("Engine.step", "/app/engine.py"), python("Thread.run", "/usr/lib/python3.11/threading.py"),
		}, "Engine.step", "Condition.wait"},
		"an installed package is an application": {[]Frame{python("schedule", "/usr/lib/python3/dist-packages/vllm/core.py")}, "schedule", ""},
		"the call of a library": {[]Frame{
			native("", hip), native("hipStreamSynchronize", hip), native("ffi_call", "/usr/lib/libffi.so.8"), native("_ctypes_callproc", "/usr/lib/_ctypes.cpython-311.so"),
			native("_PyEval_EvalFrameDefault", libpython), python("Model.synchronize", "/app/engine.py"),
		}, "Model.synchronize", "hipStreamSynchronize"},
		"native":                    {[]Frame{native("ioctl", libc), native("hsaKmtWaitOnEvent", "/opt/libhsakmt.so.1"), native("hipMemcpy", hip), native("Server::step", "/app/serve")}, "Server::step", "hipMemcpy"},
		"only system libraries":     {[]Frame{native("epoll_wait", libc), native("clone3", libc)}, "epoll_wait", ""},
		"only the standard library": {[]Frame{python("Thread.run", "/usr/lib/python3.11/threading.py")}, "Thread.run", ""},
		"nothing":                   {nil, "", ""},
	} {
		if p := PlaceOf(c.stack); p.App.Name != c.app || p.Inside.Name != c.inside {
			t.Errorf("%s: %+v, want %s in %s", name, p, c.app, c.inside)
		}
	}
}

func TestWaitsFor(t *testing.T) {
	gil := []Frame{native("take_gil", "/usr/lib/libpython3.11.so.1.0"), python("f", "/app/a.py")}
	for want, c := range map[string]struct {
		cause Cause
		stack []Frame
	}{
		ForGIL:           {Cause{Syscall: 202}, gil},
		ForGPU:           {Cause{Syscall: ioctl, Request: waitEvents}, nil},
		ForSleep:         {Cause{Syscall: clockNanosleep}, nil},
		ForLock:          {Cause{Syscall: 202}, []Frame{python("f", "/app/a.py"), gil[0]}},
		"epoll_wait":     {Cause{Syscall: 232}, nil},
		"system call -5": {Cause{Syscall: -5}, nil},
		"":               {Cause{Syscall: tracedb.Null}, nil},
	} {
		if got := WaitsFor(&c.cause, c.stack); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
