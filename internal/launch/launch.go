// Package launch starts a program whose ROCm runtime loads the payload (HSA_TOOLS_LIB), and gets
// word of each of its processes that is about to use a GPU. Such a process waits until it may go
// on (payload/src/session/launch.c, decision 0026).
package launch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Child is a program that the tool has started.
type Child struct {
	PID     int
	Done    chan struct{} // closed when it has ended
	Waiting chan *Waiting // its processes that are about to use a GPU

	cmd      *exec.Cmd
	listener *net.UnixListener
	file     *file // of the payload; nil: it has none
	closed   chan struct{}
}

// Start starts a program with the tool's own standard files, terminal, folder and environment, to
// which it adds the payload. The caller must call Close.
func Start(argv []string, library []byte) (*Child, error) {
	c := &Child{
		Done: make(chan struct{}), Waiting: make(chan *Waiting),
		cmd: exec.Command(argv[0], argv[1:]...), closed: make(chan struct{}),
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.start(library); err != nil {
		return nil, errors.Join(err, c.release())
	}
	c.PID = c.cmd.Process.Pid
	go func() {
		_ = c.cmd.Wait() // ExitCode tells how it ended
		close(c.Done)
	}()
	go c.accept()
	return c, nil
}

// start starts the program.
func (c *Child) start(library []byte) error {
	payload, done, err := c.share(library)
	if err != nil {
		return fmt.Errorf("share the payload: %w", err)
	}
	defer done()
	secret, err := nonce(16)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("rtl-attach/run/%d/%s", os.Getpid(), secret)
	if c.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: "@" + name, Net: "unix"}); err != nil {
		return err
	}
	c.cmd.Env = environment(os.Environ(), payload, name)
	return c.cmd.Start()
}

// Close lets all waiting processes go on, and those that come later. Later processes do not find the payload.
func (c *Child) Close() error {
	close(c.closed)
	return c.release()
}

func (c *Child) release() (err error) {
	if c.listener != nil {
		err = c.listener.Close()
	}
	if c.file != nil {
		err = errors.Join(err, c.file.remove())
	}
	return err
}

// Signal sends the program a signal.
func (c *Child) Signal(s os.Signal) error { return c.cmd.Process.Signal(s) }

// ExitCode returns the exit code of the program, which must have ended: 128 and the signal's
// number if a signal ended it, as shells say it.
func (c *Child) ExitCode() int {
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}

const (
	toolsVariable = "HSA_TOOLS_LIB"
	// With rocprofiler-register, runtimes from 6.2 on ignore HSA_TOOLS_LIB while a tool of
	// rocprofiler-sdk is loaded, unless this is set.
	olderTools = "HSA_TOOLS_ROCPROFILER_V1_TOOLS"
)

// environment adds the payload and the recorder's address to an environment.
func environment(own []string, library, address string) []string {
	has := map[string]string{}
	for _, v := range own {
		name, value, _ := strings.Cut(v, "=")
		has[name] = value
	}
	env := append(own, toolsVariable+"="+appendTool(has[toolsVariable], library), ring.Launched+"="+address)
	if _, set := has[olderTools]; !set && has[toolsVariable] == "" {
		env = append(env, olderTools+"=1")
	}
	return env
}

// appendTool appends a library to the list in HSA_TOOLS_LIB, as the runtime reads it: a space ends
// a name, also an empty one, unless it is quoted; a quote ends a name, too. A list with quotes
// stays as it is behind the library.
func appendTool(list, library string) string {
	list = strings.TrimRight(list, " ")
	switch {
	case list == "":
		return library
	case strings.ContainsAny(list, `"\`):
		return library + " " + list
	}
	return list + " " + library
}
