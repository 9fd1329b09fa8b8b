package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const answerTimeout = 40 * time.Second

// process is a running workload.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // of its standard output; closed at its end
	port  int
}

// start starts a workload and waits until it prints that it is ready.
func start(line, env []string) (*process, error) {
	p := &process{cmd: exec.Command(line[0], line[1:]...), lines: make(chan string, 16)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	text, err := p.line()
	if err != nil || !strings.HasPrefix(text, "ready") {
		return nil, fmt.Errorf("%s did not print that it is ready: %q (%s)", filepath.Base(line[0]), text, p.end())
	}
	_, _ = fmt.Sscanf(text, "ready pid=%d port=%d", new(int), &p.port)
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) line() (string, error) {
	select {
	case line, open := <-p.lines:
		if !open {
			return "", errors.New("it has ended")
		}
		return line, nil
	case <-time.After(answerTimeout):
		return "", errors.New("it did not answer in time")
	}
}

// run makes the workload measure once, and returns the numbers of its answer.
func (p *process) run(c cell, seconds float64) (map[string]float64, error) {
	if p.port != 0 {
		return p.watch(seconds)
	}
	if _, err := fmt.Fprintf(p.in, c.line+"\n", seconds); err != nil {
		return nil, err
	}
	line, err := p.line()
	if err != nil {
		return nil, err
	}
	return numbers([]byte(line))
}

// watch measures a server, which works all the time, by its own statistics.
func (p *process) watch(seconds float64) (map[string]float64, error) {
	before, err := p.stats()
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(seconds * 1e9)) // the length of the measurement
	after, err := p.stats()
	if err != nil {
		return nil, err
	}
	after["requests"] -= before["requests"]
	after["rate"] = after["requests"] / (after["uptime_ns"] - before["uptime_ns"]) * 1e9
	return after, nil
}

func (p *process) stats() (map[string]float64, error) {
	client := http.Client{Timeout: answerTimeout}
	r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/stats", p.port))
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return numbers(b)
}

func numbers(line []byte) (map[string]float64, error) {
	var all map[string]any
	if err := json.Unmarshal(line, &all); err != nil {
		return nil, fmt.Errorf("%q: %w", line, err)
	}
	out := map[string]float64{}
	for k, v := range all {
		if n, ok := v.(float64); ok {
			out[k] = n
		}
	}
	return out, nil
}

// end kills the process, if it has not exited, and returns how it ended.
func (p *process) end() string {
	defer func() {
		for range p.lines { // until the reader goroutine has ended
		}
	}()
	_ = p.in.Close()
	select {
	case <-time.After(50 * time.Millisecond):
	case _, open := <-p.lines:
		if !open {
			return endText(p.cmd)
		}
	}
	_ = p.cmd.Process.Kill()
	return endText(p.cmd)
}

func endText(cmd *exec.Cmd) string {
	if err := cmd.Wait(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}
