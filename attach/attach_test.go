package attach_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/attach"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/simulator"
)

// The main goroutine keeps the main thread: a tracer's goroutine must be able to end its OS thread.
func init() { runtime.LockOSThread() }

// server is what the example records.
var server struct {
	pid    int
	folder string
	work   func()
}

// serve starts a HIP server on a simulated GPU.
func serve(t *testing.T) *simulator.Target {
	t.Helper()
	v := simulator.Start(t, simulator.Workload{Program: "serve", Args: []string{
		"--threads", "2", "--streams", "2", "--rate", "50", "--kernels", "4",
	}})
	server.pid, server.folder = v.PID, t.TempDir()
	server.work = func() { launches(t, v, 100) }
	server.work()
	return v
}

// launches waits until the server has launched so many kernels more.
func launches(t *testing.T, v *simulator.Target, more int) {
	t.Helper()
	count := func() (n int) {
		if _, err := fmt.Sscanf(v.Get("/health"), "ok %d", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	from := count()
	if !hang.Eventually(func() bool { return count() >= from+more }) {
		t.Fatal("no progress")
	}
}

// printed returns what f prints to standard output.
func printed(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stdout := os.Stdout
	os.Stdout = w
	f()
	os.Stdout = stdout
	_ = w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExamples runs the example that needs a GPU.
func TestExamples(t *testing.T) {
	serve(t)
	if got, want := printed(t, ExampleProcess), "complete: true kernels: 3\n"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
	if got, want := printed(t, ExampleSession_Disable), "sessions: 2\n"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
	if got, want := printed(t, ExampleSession_Trigger), "last-1.db kernels: 3\n"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
	if got, want := printed(t, ExampleResult_Events), "kernels by name: true, on GPU 0: true, in order: true, copies: true\n"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}

// events notes the calls of an observer.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) note(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, what)
}

func (e *events) Preflight(string) { e.note("preflight") }

func (e *events) Attached(string, int, time.Duration) { e.note("attached") }

func (*events) Joined(string)                                               {}
func (e *events) AllAttached(string)                                        { e.note("attached") }
func (e *events) Recording(_, _ time.Duration, _ attach.Progress, _ uint64) {}
func (e *events) Detaching(string, bool)                                    { e.note("detaching") }

func (e *events) Detached(string) { e.note("detached") }

func (e *events) Warn(text string)       { e.note("warning: " + text) }
func (e *events) Debug(string)           {}
func (e *events) PassedOver(string)      {}
func (e *events) Triggered(string)       {}
func (e *events) Failed(f *attach.Error) { e.note("failed: " + f.What) }

// TestProcess: what is in the file after Flush; the observer; nothing of the program that records has changed, and
// nothing is printed.
func TestProcess(t *testing.T) {
	v := serve(t)
	path := filepath.Join(server.folder, "t.db")
	user, descriptors, seen := os.Geteuid(), openDescriptors(t), &events{}
	said := printed(t, func() {
		for range 2 { // a second session of the resident payload, into the same file
			s, err := attach.Process(context.Background(), v.PID, attach.Options{Output: path, Append: true, Observer: seen})
			if err != nil {
				t.Error(err)
				return
			}
			if os.Geteuid() != user {
				t.Errorf("the program's user is %d while it records", os.Geteuid())
			}
			before := kernelsIn(t, path)
			launches(t, v, 100)
			ctx, cancel := context.WithTimeout(context.Background(), hang.Limit)
			if err := s.Flush(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			if after := kernelsIn(t, path); after < before+100 {
				t.Errorf("%d kernels in the file, after 100 more only %d", before, after)
			}
			s.Stop()
			if result, err := s.Wait(); err != nil || result.Code != attach.OK || result.Path != path || result.Strict() != attach.OK {
				t.Errorf("%+v, %v", result, err)
			}
			if err := s.Flush(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	if said != "" {
		t.Errorf("it printed %q", said)
	}
	want := "preflight attached detaching detached preflight attached detaching detached"
	if got := strings.Join(seen.all, " "); got != want {
		t.Errorf("the observer was told %s", got)
	}
	if now := openDescriptors(t); len(now) > len(descriptors) {
		t.Errorf("descriptors before:\n%s\nafter:\n%s", strings.Join(descriptors, "\n"), strings.Join(now, "\n"))
	}
}

// kernelsIn counts by another process: this one must not open the file.
func kernelsIn(t *testing.T, path string) int {
	t.Helper()
	out, err := exec.Command("sqlite3", "-readonly", "-cmd", ".timeout 60000", path, "SELECT count(*) FROM rtl_execution").Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// openDescriptors gives what each descriptor of this process refers to.
func openDescriptors(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, entry := range list {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil {
			open = append(open, entry.Name()+" "+target)
		}
	}
	return open
}

// TestDuration: the recording ends by itself, or with its context.
func TestDuration(t *testing.T) {
	v := serve(t)
	s, err := attach.Process(context.Background(), v.PID, attach.Options{Output: server.folder + "/d.db", Duration: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if s, err = attach.Process(ctx, v.PID, attach.Options{Output: server.folder + "/c.db"}); err != nil {
		t.Fatal(err)
	}
	s.SkipDrain()
	s.SkipDrain()
	cancel()
	if _, err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// TestOptions: options that mean nothing.
func TestOptions(t *testing.T) {
	for _, o := range []attach.Options{
		{Output: "%q.db"},
		{Append: true, Force: true},
		{Duration: -1},
		{Kinds: []string{"pmc"}},
		{Settings: map[string]string{"RTL_BUFFER_SIZE": "x"}},
		{Filter: attach.Filter{GPUs: "first"}},
		{Filter: attach.Filter{Iterations: "[3-1]"}},
	} {
		var explained *attach.Error
		if _, err := attach.Process(context.Background(), os.Getpid(), o); !errors.As(err, &explained) || explained.Code != attach.Usage {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
