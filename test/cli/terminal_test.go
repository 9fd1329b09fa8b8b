package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// onTerminal says whether its standard files are a terminal whose foreground process group it is in, counts SIGINT, and ends with
// the first line that it reads.
const onTerminal = `
import os, signal, sys
count = 0
def interrupted(*_):
    global count
    count += 1
    os.write(1, b"interrupt %d\n" % count)
signal.signal(signal.SIGINT, interrupted)
print("terminal", all(os.isatty(fd) for fd in range(3)), "foreground", os.tcgetpgrp(0) == os.getpgrp(), os.getsid(0) == os.getsid(os.getppid()), flush=True)
sys.stdin.readline()
print("interrupts", count, flush=True)
sys.exit(5)
`

// TestRunTerminal: a program that the tool starts has its terminal, in the foreground; each Ctrl-C reaches it once.
func TestRunTerminal(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		testenv.Skip(t, "python3 is not installed")
	}
	controller, terminal := openTerminal(t)
	cmd := exec.Command(testenv.Artefact(t, "rtl-attach"), "run", "-o", filepath.Join(t.TempDir(), "t.db"), "--", python, "-c", onTerminal)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	terminal.Close()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(controller); in.Scan(); {
			lines <- strings.TrimPrefix(strings.TrimSpace(in.Text()), "^C") // the terminal's echo
		}
	}()
	await := func(want string) {
		t.Helper()
		var said []string
		if !hang.Eventually(func() bool {
			select {
			case line, more := <-lines:
				said = append(said, line)
				return line == want || !more
			default:
				return false
			}
		}) || said[len(said)-1] != want {
			t.Fatalf("not said: %s\n%s", want, strings.Join(said, "\n"))
		}
	}
	await("terminal True foreground True True")
	const interrupts = 3
	for i := range interrupts {
		if _, err := controller.WriteString("\x03"); err != nil {
			t.Fatal(err)
		}
		await(fmt.Sprintf("interrupt %d", i+1))
	}
	if _, err := controller.WriteString("end\n"); err != nil {
		t.Fatal(err)
	}
	await(fmt.Sprintf("interrupts %d", interrupts))
	for range lines {
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

// openTerminal opens a pseudoterminal.
func openTerminal(t *testing.T) (controller, terminal *os.File) {
	t.Helper()
	controller, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		testenv.Skip(t, "no pseudoterminal can be opened: "+err.Error())
	}
	t.Cleanup(func() { _ = controller.Close() })
	raw, err := controller.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number, unlocked := 0, error(nil)
	if e := raw.Control(func(fd uintptr) {
		if unlocked = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); unlocked == nil {
			number, unlocked = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); e != nil || unlocked != nil {
		t.Fatal(e, unlocked)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return controller, terminal
}
