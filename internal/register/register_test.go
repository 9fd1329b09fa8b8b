package register

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// The main goroutine keeps the main thread: a tracer's goroutine must be able to end its OS thread.
func init() { runtime.LockOSThread() }

// prepared starts a process that is prepared for an attach, if so, and returns it with a tool and the
// file in which rocprofiler-sdk's double notes its calls.
func prepared(t *testing.T, attach bool) (v *victim.Victim, tool, log string) {
	t.Helper()
	dir := t.TempDir()
	tool, log = filepath.Join(dir, "libtool.so"), filepath.Join(dir, "log")
	if err := os.WriteFile(tool, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(victim.Path(t, "registered"), victim.Path(t, "rocp/librocprofiler-register.so.0"))
	if attach {
		cmd.Env = append(os.Environ(), "ROCP_TOOL_ATTACH=1")
	}
	return victim.Run(t, cmd), tool, log
}

func options(tool, log string, more ...string) Options {
	o := Options{Tool: tool, Environment: []envbuf.Var{{Name: "ROCPROF_TEST_LOG", Value: log}}}
	for ; len(more) > 0; more = more[2:] {
		o.Environment = append(o.Environment, envbuf.Var{Name: more[0], Value: more[1]})
	}
	return o
}

// calls returns what rocprofiler-sdk's double was called for.
func calls(t *testing.T, log string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

func isAlive(t *testing.T, v *victim.Victim) {
	t.Helper()
	if said := v.Ask(t, "?"); said != "here" {
		t.Errorf("the process said %q", said)
	}
}

// TestAttach: attach, detach, attach again; the tool and the variables arrive, and nothing remains.
func TestAttach(t *testing.T) {
	v, tool, log := prepared(t, true)
	before := v.Inventory(t)
	for round := range 3 {
		s, err := Attach(context.Background(), v.PID, options(tool, log, "ROCPROF_KERNEL_TRACE", "1", "ROCPROF_OUTPUT_PATH", "a b=c"))
		if err != nil {
			t.Fatal(err)
		}
		if s.Tool != tool || len(s.Report.Pauses) == 0 {
			t.Errorf("tool %q, pauses %v", s.Tool, s.Report.Pauses)
		}
		isAlive(t, v)
		if err := s.Detach(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(calls(t, log), " "); got != strings.TrimSpace(strings.Repeat("attach detach ", round+1)) {
			t.Errorf("calls: %s", got)
		}
	}
	text, _ := os.ReadFile(log)
	for _, want := range []string{" ROCP_TOOL_LIBRARIES=" + tool, " ROCPROF_ATTACH_TOOL_LIBRARY=" + tool, " ROCPROF_KERNEL_TRACE=1", " ROCPROF_OUTPUT_PATH=a b=c"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q did not arrive:\n%s", want, text)
		}
	}
	isAlive(t, v)
	v.AsBefore(t, before)
}

// TestRefused: what prevents an attach is found before the process is touched.
func TestRefused(t *testing.T) {
	t.Run("not prepared", func(t *testing.T) {
		v, tool, log := prepared(t, false)
		if _, err := Attach(context.Background(), v.PID, options(tool, log)); !errors.Is(err, ErrNotPrepared) {
			t.Errorf("error %v", err)
		}
		isAlive(t, v)
	})
	t.Run("no library", func(t *testing.T) {
		v := victim.Start(t, "plain")
		if _, err := Attach(context.Background(), v.PID, Options{}); !errors.Is(err, ErrNoLibrary) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("tool", func(t *testing.T) {
		v, tool, log := prepared(t, true)
		for _, bad := range []string{"libtool.so", tool + "x", tool + ":", filepath.Dir(tool), "/" + strings.Repeat("x", toolMax), ""} {
			var refused *ToolError
			if _, err := Attach(context.Background(), v.PID, options(bad, log)); !errors.As(err, &refused) {
				t.Errorf("%.80q: error %v", bad, err)
			}
		}
		isAlive(t, v)
	})
	t.Run("held", func(t *testing.T) {
		v, tool, log := prepared(t, true)
		s, err := Attach(context.Background(), v.PID, options(tool, log))
		if err != nil {
			t.Fatal(err)
		}
		var busy *target.BusyError
		if _, err := Attach(context.Background(), v.PID, options(tool, log)); !errors.As(err, &busy) {
			t.Errorf("error %v", err)
		}
		if err := s.Detach(); err != nil {
			t.Error(err)
		}
	})
}

// TestStatus: a status other than success has its name, and nothing remains.
func TestStatus(t *testing.T) {
	v, tool, log := prepared(t, true)
	before := v.Inventory(t)
	var refused *StatusError
	if _, err := Attach(context.Background(), v.PID, options(tool, log, "ROCPROF_TEST_MODE", "fail")); !errors.As(err, &refused) ||
		refused.Status.String() != "ROCP_REG_ROCPROFILER_ERROR" || refused.Call != attachFunction {
		t.Errorf("error %v", err)
	}
	other := tool + ".2"
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(context.Background(), v.PID, options(other, log)); !errors.As(err, &refused) || refused.Status.String() != "ROCP_REG_INVALID_ARGUMENT" {
		t.Errorf("error %v", err)
	}
	isAlive(t, v)
	v.AsBefore(t, before)
}

// TestWatched: without its recorder the process detaches by itself.
func TestWatched(t *testing.T) {
	v, tool, log := prepared(t, true)
	before := v.Inventory(t)
	o := options(tool, log)
	o.IdleTimeout = time.Second
	s, err := Attach(context.Background(), v.PID, o)
	if err != nil {
		t.Fatal(err)
	}
	s.held.Abandon() // as if this tool were dead
	s.close()
	if !hang.Eventually(func() bool { return strings.Join(calls(t, log), " ") == "attach detach" }) {
		t.Errorf("calls: %v", calls(t, log))
	}
	isAlive(t, v)
	v.AsBefore(t, before)
	if err := DetachFrom(context.Background(), v.PID, o); err != nil {
		t.Error(err)
	}
	if got := strings.Join(calls(t, log), " "); got != "attach detach detach" {
		t.Errorf("calls: %s", got)
	}
}

// TestHanging: a call that does not return has a deadline; once it returns, the process detaches by itself.
func TestHanging(t *testing.T) {
	v, tool, log := prepared(t, true)
	before := v.Inventory(t)
	hold := log + ".hold"
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(tool, log, "ROCPROF_TEST_MODE", "hang", "ROCPROF_TEST_HOLD", hold)
	o.AttachTimeout, o.IdleTimeout = 100*time.Millisecond, time.Second
	var (
		late    *inject.TimeoutError
		remains *inject.RemainsError
	)
	if _, err := Attach(context.Background(), v.PID, o); !errors.As(err, &late) || !errors.As(err, &remains) {
		t.Errorf("error %v", err)
	}
	isAlive(t, v)
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if !hang.Eventually(func() bool { return strings.Join(calls(t, log), " ") == "attach detach" }) {
		t.Errorf("calls: %v", calls(t, log))
	}
	v.AsBefore(t, before)
}

// TestExit: the process ends while a tool is attached.
func TestExit(t *testing.T) {
	v, tool, log := prepared(t, true)
	o := options(tool, log)
	o.IdleTimeout = time.Second
	s, err := Attach(context.Background(), v.PID, o)
	if err != nil {
		t.Fatal(err)
	}
	v.Stop()
	<-s.Lost()
	if err := s.Detach(); !errors.Is(err, target.ErrGone) {
		t.Errorf("error %v", err)
	}
}
