package inject

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// failAt makes the injection fail at one point.
func failAt(t *testing.T, p Point, with error) {
	Fault = func(now Point) error {
		if now == p {
			return with
		}
		return nil
	}
	t.Cleanup(func() { Fault = nil })
}

func TestFaultAtEveryPoint(t *testing.T) {
	lib := payload(t, "payload.so")
	v := victim.Start(t, "busy")
	tr := tracer(t)
	before := v.Inventory(t)
	fault := errors.New("made to fail")
	for _, p := range Points {
		t.Run(string(p), func(t *testing.T) {
			failAt(t, p, fault)
			rep, err := Inject(context.Background(), open(t, v), tr, Request{Library: lib, Entry: "rtl_attach",
				IdleTimeout: 300 * time.Millisecond})
			if !errors.Is(err, fault) {
				t.Fatalf("error %v, want the fault; %+v", err, rep)
			}
			var remains *RemainsError
			if errors.As(err, &remains) {
				t.Errorf("rollback: %v", remains)
			}
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
	Fault = nil
	inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach"})
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// TestToolKilled kills a tool at every point, and then attaches with another.
func TestToolKilled(t *testing.T) {
	lib := payload(t, "payload.so")
	v := victim.Start(t, "busy")
	tr := tracer(t)
	before := v.Inventory(t)
	reclaimed := 0
	for _, p := range Points {
		t.Run(string(p), func(t *testing.T) {
			tool := exec.Command(os.Args[0], "-test.run=^TestHelperTool$", "-test.v")
			tool.Env = append(os.Environ(), "RTL_TEST_PID="+strconv.Itoa(v.PID), "RTL_TEST_KILL="+string(p),
				"RTL_TEST_LIBRARY="+victim.Path(t, "payload.so"))
			out, err := tool.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the tool was not killed: %v\n%s", err, out)
			}
			v.Unharmed(t)
			rep := inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach"})
			reclaimed += rep.Reclaimed
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
	if reclaimed == 0 {
		t.Error("no dead tool's mapping was ever reclaimed")
	}
}

// TestHelperTool is the tool that TestToolKilled kills.
func TestHelperTool(t *testing.T) {
	pid, err := strconv.Atoi(os.Getenv("RTL_TEST_PID"))
	if err != nil {
		t.Skip("a helper of TestToolKilled")
	}
	lib, err := os.ReadFile(os.Getenv("RTL_TEST_LIBRARY"))
	if err != nil {
		t.Fatal(err)
	}
	if random, err := time.ParseDuration(os.Getenv("RTL_TEST_KILL")); err == nil {
		time.AfterFunc(random, func() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) })
	}
	Fault = func(p Point) error {
		if strings.EqualFold(string(p), os.Getenv("RTL_TEST_KILL")) {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		return nil
	}
	tg, err := target.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Inject(context.Background(), tg, ptrace.NewTracer(), Request{Library: lib, Entry: "rtl_attach",
		IdleTimeout: 200 * time.Millisecond})
	t.Fatalf("still alive: %v", err)
}
