package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

const (
	warmDispatches = 2000

	truthLog = "truth.log"
	runTrace = "trace.db"
)

// A Workload says what to start.
type Workload struct {
	Program string   // of build/workloads
	Args    []string // as the program's --help says
	Sim     []string // of the environment, SOFTGPU_NAME=value most of them
	Runtime *Runtime // in which it runs; nil: RTL_RUNTIME's, or else this machine's
	NoGPU   bool     // it does without the simulator
	Under   []string // a command that starts it, unshare(1) say

	Frees     bool     // it frees memory of the GPU while it runs
	LogsCalls bool     // it has a --log, for CopyCalls
	RunBy     []string // flags of rtl-attach run, which starts all of that and writes RunTrace; nil: nobody records it
}

// line is the program with its arguments; the logs are in dir, and the tool and the workloads in build.
func (w Workload) line(build, program, dir string) []string {
	line := slices.Concat(w.Under, []string{program}, w.Args)
	if w.RunBy != nil {
		line = slices.Concat([]string{filepath.Join(build, "rtl-attach"), "run", "-o", filepath.Join(dir, runTrace)}, w.RunBy, []string{"--"}, line)
	}
	if w.LogsCalls {
		line = append(line, "--log", filepath.Join(dir, callLog))
	}
	return line
}

// environment is all that a workload is started with; the log is in dir.
func environment(path, simulator, dir string, w Workload) []string {
	all := []string{"PATH=" + path, "HOME=/"}
	if w.NoGPU {
		return all
	}
	return append(append(all, "LD_PRELOAD="+simulator, "SOFTGPU_LOG="+filepath.Join(dir, truthLog)), w.Sim...)
}

func (w Workload) command(t testing.TB, dir string) *exec.Cmd {
	t.Helper()
	simulator := testenv.Artefact(t, "libsoftgpu.so")
	if w.RunBy != nil {
		testenv.Artefact(t, "rtl-attach")
	}
	if w.Runtime == nil {
		w.Runtime = given(t)
	}
	if w.Runtime != nil {
		return w.Runtime.command(dir, w)
	}
	line := w.line(testenv.BuildDir(), testenv.Artefact(t, filepath.Join("workloads", w.Program)), dir)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = environment(os.Getenv("PATH"), simulator, dir, w)
	return cmd
}

// A Process is a workload that runs.
type Process struct {
	PID int
	URL string

	contained bool // its thread ids are of another pid namespace
	frees     bool // memory of the GPU
	quitting  bool
	tids      map[int64]bool // when it was asked to quit

	cmd   *exec.Cmd
	log   string
	calls string        // "": it does not log them
	held  chan string   // gets the address at which it waits for /go
	ready chan struct{} // closed when it has said so
	done  chan struct{} // closed when it has ended

	mu     sync.Mutex
	output []string
	err    error
}

// StartCold starts a workload and does not wait for it. It is killed at the end of
// the test, if it is still there.
func StartCold(t testing.TB, w Workload) *Process {
	t.Helper()
	dir := t.TempDir()
	p := &Process{frees: w.Frees, log: filepath.Join(dir, truthLog), held: make(chan string, 1), ready: make(chan struct{}), done: make(chan struct{})}
	if w.LogsCalls {
		p.calls = filepath.Join(dir, callLog)
	}
	p.cmd = w.command(t, dir)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	p.PID = p.cmd.Process.Pid
	go p.read(out)
	t.Cleanup(p.Kill)
	return p
}

// Start returns when the workload is in full swing.
func Start(t testing.TB, w Workload) *Process {
	t.Helper()
	p := StartCold(t, w)
	p.Ready(t)
	p.warm(t)
	return p
}

// StartHeld returns when the workload has started the HSA runtime and nothing else (testdata/workloads/held.h). The returned
// function has it go on.
func StartHeld(t testing.TB, w Workload) (p *Process, release func()) {
	t.Helper()
	w.Sim = append(slices.Clone(w.Sim), "RTL_HELD=1")
	p = StartCold(t, w)
	select {
	case at := <-p.held:
		return p, func() {
			t.Helper()
			if _, err := get(at, "/go"); err != nil {
				t.Fatalf("go: %v\n%s", err, p.Output())
			}
			p.Ready(t)
		}
	case <-p.done:
		t.Fatalf("the workload ended before it was held: %v\n%s", p.err, p.Output())
	case <-time.After(hang.Limit):
		t.Fatalf("the workload is not held after %v\n%s", hang.Limit, p.Output())
	}
	return nil, nil
}

// RunTrace is the path of the trace of a workload with RunBy.
func (p *Process) RunTrace() string { return filepath.Join(filepath.Dir(p.log), runTrace) }

// Ready waits until the workload has said so.
func (p *Process) Ready(t testing.TB) {
	t.Helper()
	select {
	case <-p.ready:
	case <-p.done:
		t.Fatalf("the workload ended before it was ready: %v\n%s", p.err, p.Output())
	case <-time.After(hang.Limit):
		t.Fatalf("the workload is not ready after %v\n%s", hang.Limit, p.Output())
	}
}

func (p *Process) read(out *os.File) {
	exited := make(chan error, 1)
	go func() {
		exited <- p.cmd.Wait()
		// The simulator's engine, a process of its own, may hold the pipe a little longer.
		_ = out.SetReadDeadline(time.Now().Add(2 * time.Second))
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		p.mu.Lock()
		p.output = append(p.output, line)
		p.mu.Unlock()
		var pid, port int
		if n, _ := fmt.Sscanf(line, "held pid=%d port=%d", &pid, &port); n == 2 {
			p.held <- address(port)
		}
		if n, _ := fmt.Sscanf(line, "ready pid=%d port=%d", &pid, &port); n == 2 {
			p.URL = "http://" + address(port)
			close(p.ready)
		}
	}
	out.Close()
	p.err = <-exited
	close(p.done)
}

// Output is what the workload has printed so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.output, "\n")
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Get asks the workload's HTTP server.
func (p *Process) Get(path string) (string, error) {
	return get(strings.TrimPrefix(p.URL, "http://"), path)
}

func get(at, path string) (string, error) {
	connection, err := net.DialTimeout("tcp", at, hang.Limit)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(hang.Limit)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(connection, "GET %s HTTP/1.0\r\n\r\n", path); err != nil {
		return "", err
	}
	// To the end of the connection: the server's descriptor is gone by then.
	raw, err := io.ReadAll(connection)
	if err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(body), err
}

// warm waits until the workload is in full swing: ready it says before.
func (p *Process) warm(t testing.TB) {
	t.Helper()
	Until(t, "the workload is warm", func() bool { return p.dispatched() > warmDispatches })
}

// dispatched is what the workload says of itself; 0 without an answer.
func (p *Process) dispatched() int {
	var n int
	if text, err := p.Get("/health"); err == nil {
		_, _ = fmt.Sscanf(text, "ok %d", &n)
	}
	return n
}

// Dispatches is a condition for Until: n more than now.
func (p *Process) Dispatches(t testing.TB, n int) func() bool {
	t.Helper()
	from := p.dispatched()
	return func() bool { return p.dispatched() >= from+n }
}

// StillAlive asks a question and expects an answer.
func (p *Process) StillAlive(t testing.TB) {
	t.Helper()
	if text, err := p.Get("/health"); err != nil || !strings.HasPrefix(text, "ok") {
		t.Fatalf("the workload does not answer: %q, %v\n%s", text, err, p.Output())
	}
}

// Wait returns the exit code once the workload has ended.
func (p *Process) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(hang.Limit):
		t.Fatalf("the workload has not ended after %v\n%s\n%s", hang.Limit, hang.Threads(p.PID), p.Output())
	}
	var failed *exec.ExitError
	if errors.As(p.err, &failed) && failed.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("the workload died: %v\n%s", p.err, p.Output())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Quit ends the workload in an orderly way: it has to succeed.
func (p *Process) Quit(t testing.TB) simlog.Counts {
	t.Helper()
	p.askToQuit(t)
	return p.Finish(t)
}

func (p *Process) askToQuit(t testing.TB) {
	t.Helper()
	if p.quitting {
		return
	}
	p.quitting, p.tids = true, p.TIDs()
	if _, err := p.Get("/quit"); err != nil {
		t.Fatalf("quit: %v\n%s", err, p.Output())
	}
}

// Finish waits for an end that was asked for otherwise, and returns what each
// thread says that it dispatched.
func (p *Process) Finish(t testing.TB) simlog.Counts {
	t.Helper()
	if code := p.Wait(t); code != 0 {
		t.Fatalf("the workload ended with %d\n%s", code, p.Output())
	}
	counts, err := p.counts()
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Output())
	}
	return counts
}

func (p *Process) counts() (simlog.Counts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.output, func(line string) bool { return strings.HasPrefix(line, "{") })
	if i < 0 {
		return nil, errors.New("the workload printed no counts")
	}
	var line struct {
		Threads []struct{ ID, Count uint64 }
	}
	if err := json.Unmarshal([]byte(p.output[i]), &line); err != nil {
		return nil, fmt.Errorf("%q: %w", p.output[i], err)
	}
	counts := simlog.Counts{}
	for _, thread := range line.Threads {
		counts[thread.ID] = thread.Count
	}
	return counts, nil
}

// Kill ends the workload at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Until waits for a condition that must come about; a test that waits for time alone is
// wrong twice.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !hang.Eventually(holds) {
		t.Fatalf("not after %v: %s", hang.Limit, what)
	}
}
