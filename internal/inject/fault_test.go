package inject

import (
	"context"
	"errors"
	"math/rand/v2"
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
			rep, err := Inject(context.Background(), open(t, v), tr, Request{
				Library: lib, Entry: "rtl_attach",
				IdleTimeout: 300 * time.Millisecond,
			})
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
			out, err := tool(t, v, string(p)).CombinedOutput()
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

// TestToolKilledAtRandom: 34, as many times as fit into a test run.
func TestToolKilledAtRandom(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 10
	}
	v := victim.Start(t, "busy")
	before := v.Inventory(t)
	for range n {
		killed := time.Duration(rand.Int64N(int64(12 * time.Millisecond)))
		_, _ = tool(t, v, killed.String()).CombinedOutput() // some finish first
		v.Unharmed(t)
	}
	inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
	v.AsBefore(t, before)
}

// tool is a process that injects, and is killed at a point or after a time.
func tool(t *testing.T, v *victim.Victim, kill string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperTool$")
	cmd.Env = append(os.Environ(), "RTL_TEST_PID="+strconv.Itoa(v.PID), "RTL_TEST_KILL="+kill,
		"RTL_TEST_LIBRARY="+victim.Path(t, "payload.so"))
	return cmd
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
	_, err = Inject(context.Background(), tg, ptrace.NewTracer(), Request{
		Library: lib, Entry: "rtl_attach",
		IdleTimeout: 200 * time.Millisecond,
	})
	t.Fatalf("still alive: %v", err)
}
