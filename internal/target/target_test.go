package target_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

func init() { runtime.LockOSThread() }

func open(t *testing.T, pid int) *target.Target {
	t.Helper()
	tg, err := target.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	return tg
}

// TestSymbols: what is read from memory is what the files say.
func TestSymbols(t *testing.T) {
	tg := open(t, victim.Start(t, "busy", "futex").PID)
	maps, err := tg.Maps()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := tg.Modules(maps)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range modules {
		if filepath.Base(m.Name) != "libc.so.6" {
			continue
		}
		for _, name := range []string{"malloc", "dlopen", "pthread_create", "_thread_db_sizeof_pthread"} {
			addr, ok, err := m.Symbol(name)
			if err != nil || !ok {
				t.Fatalf("%s: %v, %v", name, ok, err)
			}
			out, err := exec.Command("nm", "-D", m.Name).Output()
			if err != nil {
				testenv.Skip(t, "no nm")
			}
			for line := range strings.Lines(string(out)) {
				f := strings.Fields(line)
				if len(f) == 3 && strings.HasPrefix(f[2], name+"@@") {
					if want := strings.TrimLeft(f[0], "0"); want != hex(uint64(addr-m.Base)) {
						t.Errorf("%s at %#x, nm says %s", name, addr-m.Base, want)
					}
					found++
				}
			}
		}
		if _, ok, err := m.Symbol("rtl_no_such_symbol"); ok || err != nil {
			t.Errorf("a symbol that does not exist: %v, %v", ok, err)
		}
		tls, ok, err := tg.ReadTLS(m)
		if !ok || err != nil || tls.Size == 0 {
			t.Errorf("TLS of libc: %+v, %v, %v", tls, ok, err)
		}
	}
	if found != 4 {
		t.Errorf("%d of 4 symbols checked", found)
	}
}

func hex(v uint64) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; v > 0; v >>= 4 {
		s = string(digits[v&15]) + s
	}
	return s
}

func TestRefusals(t *testing.T) {
	t.Run("no such pid", func(t *testing.T) {
		if _, err := target.Open(1<<22 - 1); !errors.Is(err, target.ErrGone) {
			t.Error(err)
		}
	})
	t.Run("kernel thread", func(t *testing.T) {
		if b, err := os.ReadFile("/proc/2/comm"); err != nil || string(b) != "kthreadd\n" {
			testenv.Skip(t, "no kernel threads in this pid namespace")
		}
		if _, err := target.Open(2); !errors.Is(err, target.ErrKernel) {
			t.Error(err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		v := victim.Start(t, "plain")
		if err := unix.Kill(v.PID, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		wait(t, v.PID, "T")
		if _, err := target.Open(v.PID); !errors.Is(err, target.ErrStopped) {
			t.Error(err)
		}
		wait(t, v.PID, "T")
		_ = unix.Kill(v.PID, unix.SIGCONT)
		v.Ask(t, "?")
	})
	t.Run("zombie", func(t *testing.T) {
		cmd := exec.Command("true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, cmd.Process.Pid, "Z")
		if _, err := target.Open(cmd.Process.Pid); !errors.Is(err, target.ErrZombie) {
			t.Error(err)
		}
		_ = cmd.Wait()
	})
	t.Run("traced", func(t *testing.T) {
		v := victim.Start(t, "plain")
		tr := ptrace.NewTracer()
		defer tr.Close()
		if err := tr.Do(func() error { _, err := ptrace.Seize(v.PID); return err }); err != nil {
			t.Fatal(err)
		}
		_, err := target.Open(v.PID)
		var traced *target.TracedError
		if !errors.As(err, &traced) || traced.Tracer != os.Getpid() || traced.Name == "" {
			t.Errorf("%v; %+v", err, traced)
		}
	})
	t.Run("traced by another of these tools", func(t *testing.T) {
		name, err := os.ReadFile("/proc/self/comm")
		if err == nil {
			err = os.WriteFile("/proc/self/comm", []byte("rtl-attach"), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer os.WriteFile("/proc/self/comm", name, 0)
		v := victim.Start(t, "plain")
		tr := ptrace.NewTracer()
		if err := tr.Do(func() error { _, err := ptrace.Seize(v.PID); return err }); err != nil {
			t.Fatal(err)
		}
		waits := 0
		target.WhenOpenWaits(func() {
			if waits++; waits == 1 {
				tr.Close() // its thread ends, and so the trace
			}
		})
		defer target.WhenOpenWaits(nil)
		if tg, err := target.Open(v.PID); err != nil {
			t.Error(err)
		} else {
			tg.Close()
		}
		if waits == 0 {
			t.Error("it was not traced")
		}
	})
	t.Run("static", func(t *testing.T) {
		tg := open(t, victim.Start(t, "static").PID)
		maps, err := tg.Maps()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tg.Modules(maps); !errors.Is(err, target.ErrStatic) {
			t.Error(err)
		}
	})
}

func wait(t *testing.T, pid int, state string) {
	t.Helper()
	if !hang.Eventually(func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err == nil && strings.Contains(string(b), ") "+state+" ")
	}) {
		t.Fatalf("pid %d did not come to state %s", pid, state)
	}
}

func TestPreflight(t *testing.T) {
	f, err := open(t, victim.Start(t, "busy", "futex", "read").PID).Preflight()
	if err != nil {
		t.Fatal(err)
	}
	if f.Machine != "x86-64" || f.Libc != "glibc" || !f.SameMounts || f.Threads != 3 || f.Comm != "busy" {
		t.Errorf("%+v", f)
	}
	if len(f.Problems) != 1 || !errors.Is(f.Problems[0], target.ErrNoHSA) {
		t.Errorf("problems %v, want that there is no ROCm runtime", f.Problems)
	}
}

// TestJustStarted: who starts a process gets its pid before its exec is through, the more so
// the more arguments there are to lay out. It is the new program that is taken hold of.
func TestJustStarted(t *testing.T) {
	many := slices.Repeat([]string{"a"}, 100_000)
	for range 20 {
		cmd := exec.Command(victim.Path(t, "static"), many...)
		_, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tg := open(t, cmd.Process.Pid)
		facts, err := tg.Preflight()
		if err != nil || facts.Comm != "static" || facts.Machine != "x86-64" {
			t.Errorf("%+v, %v", facts, err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil { // it says that it is ready
			t.Error(err)
		}
		if err := tg.CheckIdentity(); err != nil {
			t.Error(err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// TestSame notices an exec and an exit, on kernels without page maps, too.
func TestSame(t *testing.T) {
	t.Run("page map", func(t *testing.T) { noticesExec(t, func(*target.Target) {}) })
	t.Run("none", func(t *testing.T) { noticesExec(t, (*target.Target).WithoutPageMap) })
}

func noticesExec(t *testing.T, change func(*target.Target)) {
	v := victim.Start(t, "plain")
	tg := open(t, v.PID)
	change(tg)
	if err := tg.CheckIdentity(); err != nil {
		t.Fatal(err)
	}
	v.Tell(t, "x")
	if line := v.Line(t); line != "ready" {
		t.Fatalf("after exec: %q", line)
	}
	if err := tg.CheckIdentity(); !errors.Is(err, target.ErrExec) {
		t.Errorf("after an exec: %v", err)
	}
	if _, err := tg.Uint64(0x10000); !errors.Is(err, target.ErrExec) {
		t.Errorf("read after an exec: %v", err)
	}
	v.Stop()
	if err := tg.CheckIdentity(); !errors.Is(err, target.ErrGone) || tg.Alive() {
		t.Errorf("after the exit: %v", err)
	}
}

// TestSameWaitsForNobody: a thread of the target holds the lock on its memory map for
// reading, and for long. Who looks whether it is still the same neither waits for that lock
// nor makes others wait, whose page faults need it.
func TestSameWaitsForNobody(t *testing.T) {
	v := victim.OnFUSE(t, "reads", "taken")
	defer v.Tell(t, "e")
	looked := make(chan error, 1)
	go func() {
		tg, err := target.Open(v.PID)
		for range 100 {
			if err == nil {
				err = tg.CheckIdentity()
			}
		}
		looked <- err
	}()
	select {
	case err := <-looked:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(hang.Limit):
		t.Error("it waits for the lock")
	}
	if said := v.Ask(t, "t"); said != "touched" { // no page fault waits, either
		t.Errorf("it said %q", said)
	}
}

func TestLock(t *testing.T) {
	v := victim.Start(t, "plain")
	tg := open(t, v.PID)
	l, err := tg.Lock()
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(t, v.PID).Lock()
	var busy *target.BusyError
	if !errors.As(err, &busy) || busy.Holder != os.Getpid() {
		t.Errorf("second lock: %v; %+v", err, busy)
	}
	l.Release()
	l, err = tg.Lock()
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	l.Release()
}

// TestUnlocked: who only looks whether the lock is free is in nobody's way.
func TestUnlocked(t *testing.T) {
	tg := open(t, victim.Start(t, "plain").PID)
	looks := make(chan error)
	for range 4 {
		go func() {
			var err error
			for range 200 {
				if err == nil {
					err = tg.Unlocked()
				}
			}
			looks <- err
		}()
	}
	for range 4 {
		if err := <-looks; err != nil {
			t.Error(err)
		}
	}
	l, err := tg.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	var busy *target.BusyError
	if err := tg.Unlocked(); !errors.As(err, &busy) || busy.Holder != os.Getpid() {
		t.Errorf("while it is held: %v", err)
	}
}

// TestGlimpse: a process that cannot be attached to can be listed, without its
// memory.
func TestGlimpse(t *testing.T) {
	cmd := exec.Command(victim.Path(t, "plain"))
	cmd.Env = []string{"RANK=1", "RANK=2", "LOCAL_RANK=" + strings.Repeat("9", 100)}
	v := victim.Run(t, cmd)
	if err := unix.Kill(v.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g, err := target.OpenLight(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.Parent != os.Getpid() || g.Tracer() != 0 || g.Comm != "plain" || !g.SharesPIDs() {
		t.Errorf("%+v", g)
	}
	words, err := g.CommandLine()
	if err != nil || words != victim.Path(t, "plain") {
		t.Errorf("command line %q, %v", words, err)
	}
	env, err := g.Environ("RANK", "LOCAL_RANK")
	if err != nil || len(env) != 1 || env["RANK"] != "2" { // os/exec keeps the last one
		t.Errorf("environment %q, %v", env, err)
	}
	if d, err := g.Devices(); err != nil || d.KFD || len(d.Renders) != 0 {
		t.Errorf("devices %+v, %v", d, err)
	}
	pids, err := target.All()
	if err != nil || !slices.Contains(pids, v.PID) || !slices.IsSorted(pids) {
		t.Errorf("all: %v", err)
	}
	v.Stop()
	if _, err := target.OpenLight(v.PID); !errors.Is(err, target.ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}

// TestMemfd looks at files of this very process.
func TestMemfd(t *testing.T) {
	tg := open(t, os.Getpid())
	mapped := func(name string, seals int) {
		fd, err := unix.MemfdCreate(name, unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, 4096); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(mem); _ = unix.Close(fd) })
	}
	mapped("rtl-test-sealed", unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	mapped("rtl-test-loose", unix.F_SEAL_GROW)
	for name, ok := range map[string]bool{"rtl-test-sealed": true, "rtl-test-loose": false} {
		found, err := tg.FindMemfd(name)
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %+v, %v", name, found, err)
		}
		f, err := tg.OpenMemfd(found[0])
		if ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = f.Close()
		}
		forged := found[0]
		forged.Inode++
		if _, err := tg.OpenMemfd(forged); err == nil {
			t.Errorf("%s: opened with another inode", name)
		}
	}
}
