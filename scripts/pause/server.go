package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

const (
	patience    = 10 * time.Second
	nothingSeen = 7       // no dispatch came in the window
	window      = "300ms" // of each recording
)

// A server is one target, which is watched.
type server struct {
	meter *pausemeter.Meter
	cmd   *exec.Cmd
	pid   int
	build string
}

func startServer(m *pausemeter.Meter, build string) (*server, error) {
	cmd := exec.Command(filepath.Join(build, "workloads", "serve"), "--busy-threads", "16", "--seconds", "120")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(build, "libsoftgpu.so"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{meter: m, cmd: cmd, pid: cmd.Process.Pid, build: build}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "ready") {
		err = fmt.Errorf("the server said %q", line)
	}
	if err == nil {
		err = m.Watch(s.pid)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) stop() {
	_ = s.meter.Unwatch(s.pid)
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// maps says whether the server has a file mapped.
func (s *server) maps(path string) (bool, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", s.pid))
	return strings.Contains(string(maps), path), err
}

// floor stops one parked thread and lets it go at once.
func (s *server) floor() error {
	t, err := target.Open(s.pid)
	if err != nil {
		return err
	}
	defer t.Close()
	tid, cpu, err := parked(t)
	if err != nil {
		return err
	}
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	return tracer.Do(func() error {
		c, err := ptrace.Seize(tid)
		if err != nil {
			return err
		}
		return ptrace.Quiet(cpu, func() error {
			if _, err := c.Interrupt(time.Second); err != nil {
				return err
			}
			if err := c.ReadRegs(); err != nil {
				return err
			}
			return c.Release()
		})
	})
}

// parked finds a thread in a futex wait without time-out; now and then all of
// a busy server's threads run.
func parked(t *target.Target) (tid, cpu int, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if tid, cpu, err = parkedNow(t); err == nil {
			return tid, cpu, nil
		}
	}
	return 0, 0, err
}

func parkedNow(t *target.Target) (tid, cpu int, err error) {
	tids, err := t.Threads()
	if err != nil {
		return 0, 0, err
	}
	for _, tid := range tids {
		call, err := t.Syscall(tid)
		if err != nil || call.Running || call.Number != syscall.SYS_FUTEX || call.Args[3] != 0 || tid == t.PID {
			continue
		}
		stat, err := t.ThreadStat(tid)
		if err == nil && stat.State == 'S' {
			return tid, stat.CPU, nil
		}
	}
	return 0, 0, fmt.Errorf("pid %d has no thread parked in a futex", t.PID)
}

// A recording is what was seen of the stops of one.
type recording struct {
	tool           int               // its pid
	attach, detach []pausemeter.Stop // until the session was active, and from then on
	own            time.Duration     // all stops together, by the tool's own clock
}

func (s *server) record() (r recording, err error) {
	trace := filepath.Join(os.TempDir(), fmt.Sprintf("pause-%d-%d.db", os.Getpid(), s.pid))
	defer os.Remove(trace)
	tool := exec.Command(filepath.Join(s.build, "rtl-attach"), "-q", "--json", "-d", window, "-p", strconv.Itoa(s.pid), "-o", trace)
	var said bytes.Buffer
	tool.Stdout, tool.Stderr = &said, os.Stderr
	if err := tool.Start(); err != nil {
		return r, err
	}
	r.tool = tool.Process.Pid
	err = s.awaitActive()
	var attachErr, detachErr error
	r.attach, attachErr = s.meter.Take()
	_ = tool.Wait()
	r.detach, detachErr = s.meter.Take()
	if code := tool.ProcessState.ExitCode(); err == nil && code != 0 && code != nothingSeen {
		err = fmt.Errorf("rtl-attach ended with %d", code)
	}
	if err := errors.Join(err, attachErr, detachErr); err != nil {
		return r, err
	}
	var summary report.Summary
	err = json.Unmarshal(said.Bytes(), &summary)
	r.own = time.Duration(summary.Pauses.TotalNS)
	return r, err
}

func (s *server) awaitActive() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		out, err := exec.Command(filepath.Join(s.build, "rtl-attach"), "status", "--json", strconv.Itoa(s.pid)).Output()
		if err != nil {
			return err
		}
		var status struct {
			State string `json:"state"`
		}
		if err := json.Unmarshal(out, &status); err != nil {
			return err
		}
		if status.State == "active" {
			return nil
		}
	}
	return fmt.Errorf("pid %d was not attached within %v", s.pid, patience)
}
