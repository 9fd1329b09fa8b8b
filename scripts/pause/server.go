package main

import (
	"bufio"
	"bytes"
	"context"
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
	timeout     = 2 * time.Minute
	nothingSeen = 7       // the tool's exit code if it recorded nothing
	window      = "300ms" // --duration of each recording
)

// server is one target, watched by a pause meter.
type server struct {
	meter *pausemeter.Meter
	cmd   *exec.Cmd
	pid   int
	build string
}

func startServer(m *pausemeter.Meter, build string) (*server, error) {
	cmd := exec.Command(filepath.Join(build, "workloads", "serve"), "--busy-threads", "16", "--seconds", "600")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(build, "libsoftgpu.so"))
	cmd.Stderr = os.Stderr
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

// maps reports whether the server has a file mapped.
func (s *server) maps(path string) (bool, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", s.pid))
	return strings.Contains(string(maps), path), err
}

// floor stops one waiting thread and releases it at once.
func (s *server) floor() error {
	t, err := target.Open(s.pid)
	if err != nil {
		return err
	}
	defer t.Close()
	tid, cpu, err := waiting(t)
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

// waiting returns a thread in a futex wait without a time limit, and its processor. It
// tries again if all threads of the busy server are running.
func waiting(t *target.Target) (tid, cpu int, err error) {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if tid, cpu, err = waitingNow(t); err == nil {
			return tid, cpu, nil
		}
	}
	return 0, 0, err
}

func waitingNow(t *target.Target) (tid, cpu int, err error) {
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
	return 0, 0, fmt.Errorf("pid %d has no thread waiting for a futex", t.PID)
}

// recording has the stops of one recording.
type recording struct {
	tool           int               // the tool's pid
	attach, detach []pausemeter.Stop // before and after the session became active
	own, ownWorst  time.Duration     // the sum of all stops, and the longest, by the tool's own clock
}

func (s *server) record() (r recording, err error) {
	trace := filepath.Join(os.TempDir(), fmt.Sprintf("pause-%d-%d.db", os.Getpid(), s.pid))
	defer os.Remove(trace)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	tool := exec.CommandContext(ctx, filepath.Join(s.build, "rtl-attach"), "--json", "-d", window, "-p", strconv.Itoa(s.pid), "-o", trace)
	var out bytes.Buffer
	tool.Stdout = &out
	talk, err := tool.StderrPipe()
	if err != nil {
		return r, err
	}
	if err := tool.Start(); err != nil {
		return r, err
	}
	r.tool = tool.Process.Pid
	said, attachErr := "", errors.New("the tool did not say that it has attached")
	for lines := bufio.NewScanner(talk); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "✓ attached") {
			r.attach, attachErr = s.meter.Take()
		}
	}
	_ = tool.Wait()
	r.detach, err = s.meter.Take()
	if code := tool.ProcessState.ExitCode(); code != 0 && code != nothingSeen {
		return r, fmt.Errorf("rtl-attach ended with %d:\n%s", code, said)
	}
	var summary report.Summary
	err = errors.Join(err, attachErr, json.Unmarshal(out.Bytes(), &summary))
	r.own, r.ownWorst = time.Duration(summary.Pauses.TotalNS), time.Duration(summary.Pauses.WorstNS)
	return r, err
}
