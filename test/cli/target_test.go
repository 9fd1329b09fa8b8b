package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A subject is a running target.
type subject struct {
	pid, port int
	cmd       *exec.Cmd
	lines     chan string // what it prints; closed at its end
	in        io.Writer   // its standard input, for targets without /health
	engine    int         // the simulator's process in it
}

// onGPU returns a command that runs on the simulated GPU, without anything of this tool.
func onGPU(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testenv.Artefact(t, program), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "LD_PRELOAD=" + testenv.Artefact(t, "libsoftgpu.so")}
	return cmd
}

// serve is an inference server over HIP, stress raw HSA.
func serve(t testing.TB, args ...string) *subject {
	t.Helper()
	s := start(t, onGPU(t, "workloads/serve",
		append([]string{"--threads", "3", "--streams", "4", "--rate", "50", "--kernels", "16"}, args...)...))
	progresses(t, s) // its workers start after it has printed that it is ready
	return s
}

func stress(t testing.TB, args ...string) *subject {
	t.Helper()
	s := start(t, onGPU(t, "workloads/hsastress",
		append([]string{"--threads", "3", "--queues", "2", "--pace", "300", "--seconds", "600"}, args...)...))
	progresses(t, s)
	return s
}

// start returns when the target is ready.
func start(t testing.TB, cmd *exec.Cmd) *subject {
	t.Helper()
	out, in, err := os.Pipe() // not StdoutPipe: Wait would close it over the last words
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, os.Stderr
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{pid: cmd.Process.Pid, cmd: cmd, lines: make(chan string, 64)}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	go func() {
		defer close(s.lines)
		defer out.Close()
		for sc := bufio.NewScanner(out); sc.Scan(); {
			s.lines <- sc.Text()
		}
	}()
	ready := s.line(t)
	if _, err := fmt.Sscanf(ready, "ready pid=%d port=%d", &s.pid, &s.port); err != nil {
		t.Fatalf("the target said %q, not ready", ready)
	}
	s.engine = engineOf(s.pid)
	return s
}

// line is the next one that the target prints; "" at its end.
func (s *subject) line(t testing.TB) string {
	t.Helper()
	select {
	case line := <-s.lines:
		return line
	case <-time.After(hang.Limit):
		t.Fatalf("target %d prints nothing", s.pid)
	}
	return ""
}

// ask gets a page of the target's.
func (s *subject) ask(path string) (string, error) {
	client := http.Client{Timeout: hang.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return string(body), err
}

// launches is how much work the target has done.
func (s *subject) launches(t testing.TB) uint64 {
	t.Helper()
	var n uint64
	body, err := s.ask("/health")
	if err == nil {
		_, err = fmt.Sscanf(body, "ok %d", &n)
	}
	if err != nil {
		t.Fatalf("the target does not answer: %v; %s", err, s.obituary())
	}
	return n
}

// obituary says how the target ended, if it did.
func (s *subject) obituary() string {
	var status unix.WaitStatus
	if pid, err := unix.Wait4(s.pid, &status, unix.WNOHANG, nil); err != nil || pid != s.pid {
		return fmt.Sprintf("it has not ended (%v)", err)
	}
	if status.Signaled() {
		return fmt.Sprintf("it was ended by %v", status.Signal())
	}
	return fmt.Sprintf("it has exited with %d", status.ExitStatus())
}

// unharmed checks that the target answers, none of its threads is stopped or traced, and it works.
func (s *subject) unharmed(t testing.TB) {
	t.Helper()
	before := s.launches(t)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.pid))
	if err != nil {
		t.Fatalf("the target is gone: %v", err)
	}
	for _, thread := range threads {
		status := statusOf(s.pid, thread.Name())
		if state := status["State"]; strings.ContainsAny(state[:min(1, len(state))], "Tt") {
			t.Errorf("thread %s is stopped: %s", thread.Name(), state)
		}
		if tracer := status["TracerPid"]; tracer != "" && tracer != "0" {
			t.Errorf("thread %s is traced by %s", thread.Name(), tracer)
		}
	}
	if !hang.Eventually(func() bool { return s.launches(t) > before }) {
		t.Errorf("the target makes no progress: %d launches", before)
	}
}

// statusOf reads the fields of one thread; none when it has ended meanwhile.
func statusOf(pid int, tid string) map[string]string {
	fields := map[string]string{}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, tid))
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// ended waits for the target's end.
func (s *subject) ended(t testing.TB) syscall.WaitStatus {
	t.Helper()
	done := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(hang.Limit):
		threads := hang.Threads(s.pid)
		_ = s.cmd.Process.Kill()
		<-done
		t.Fatalf("target %d did not end\n%s", s.pid, threads)
	}
	return s.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// signal sends one to the target.
func (s *subject) signal(t testing.TB, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(s.pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
}

// engineOf finds the simulator's process of a target: its child.
func engineOf(pid int) int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		open, end := strings.Index(string(b), "("), strings.LastIndex(string(b), ")")
		if open < 0 || string(b[open+1:end]) != "softgpu-engine" {
			continue
		}
		if fields := strings.Fields(string(b[end+1:])); fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(strings.TrimSpace(string(b[:open])))
			return child
		}
	}
	return 0
}
