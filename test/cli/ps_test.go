package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/rtl-attach/rtl-attach/internal/ps"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// processes is what ps lists, by pid.
func processes(t *testing.T) map[int]ps.Process {
	t.Helper()
	out, err := exec.Command(testenv.Artefact(t, "rtl-attach"), "ps", "--json").Output()
	if err != nil {
		t.Fatalf("ps: %v", err)
	}
	var l ps.Listing
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := map[int]ps.Process{}
	for _, p := range l.Processes {
		found[p.PID] = p
	}
	return found
}

// TestListing: a server with a rank, and its worker.
func TestListing(t *testing.T) {
	cmd := onGPU(t, "workloads/hsastress", "--threads", "1", "--queues", "1", "--pace", "300", "--seconds", "600")
	cmd.Env = append(cmd.Env, "RANK=3", "LOCAL_RANK=1")
	s := start(t, cmd)
	p, listed := processes(t)[s.pid]
	if !listed || p.Rank == nil || *p.Rank != 3 || p.LocalRank == nil || *p.LocalRank != 1 {
		t.Fatalf("%+v", p)
	}
	if p.Command != "hsastress" || !strings.Contains(p.CommandLine, "--pace 300") || !strings.HasPrefix(p.ROCm, "runtime ") {
		t.Errorf("%+q", fmt.Sprint(p))
	}
	if worker := processes(t)[s.engine]; s.engine != 0 && (worker.Parent != s.pid || len(p.Workers) != 1 || p.Workers[0] != s.engine) {
		t.Errorf("its worker: %+v, it: %+v", worker, p)
	}
	s.unharmed(t)
}

// TestListingHostile: what a process chooses is shown as harmless text, and not
// without end.
func TestListingHostile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "\x1b[31m\tbad\nname\u202e")
	b, err := os.ReadFile("/bin/sh")
	if err == nil {
		err = os.WriteFile(name, b, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{cmd: exec.Command(name, "-c", "read x", "\x1b]0;title\x07", strings.Repeat("x", 100<<10))}
	s.cmd.Env = []string{"LD_PRELOAD=libhsa-runtime64.so.1", "RANK=\x1b[2J", "LOCAL_RANK=" + strings.Repeat("1", 100<<10), "PMI_RANK=5", "=", "\xff"}
	in, err := s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.pid = s.cmd.Process.Pid
	t.Cleanup(func() { _ = in.Close(); _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	if !hang.Eventually(func() bool {
		maps, err := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/maps")
		return err == nil && strings.Contains(string(maps), "libhsa-runtime64")
	}) {
		t.Fatal("it does not start")
	}
	p, listed := processes(t)[s.pid]
	if !listed || p.Rank == nil || *p.Rank != 5 || p.LocalRank != nil || len(p.CommandLine) > 4096 {
		t.Errorf("%+q", fmt.Sprint(p))
	}
	for _, args := range [][]string{{"ps"}, {"ps", "--json"}, {"doctor", strconv.Itoa(s.pid)}, {"doctor", "--json", strconv.Itoa(s.pid)}} {
		out, _ := exec.Command(testenv.Artefact(t, "rtl-attach"), args...).CombinedOutput()
		if !strings.Contains(string(out), strconv.Itoa(s.pid)) {
			t.Errorf("%v does not list it:\n%s", args, out)
		}
		for _, r := range string(out) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%v: %q in its output", args, r)
				break
			}
		}
	}
}

// TestListingWhileTheyVanish: processes that end while they are looked at are no
// error, and were never there.
func TestListingWhileTheyVanish(t *testing.T) {
	testenv.Artefact(t, "rtl-attach")
	program, stop, done := testenv.Artefact(t, "victims/mapped"), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			cmd := exec.Command(program) // its input ends at once, and so does it
			_ = cmd.Run()
		}
	}()
	for range testenv.Times(15, 300) {
		out, err := exec.Command(testenv.Artefact(t, "rtl-attach"), "ps", "--json").Output()
		if err != nil || !json.Valid(out) || strings.Contains(string(out), "no process has this pid") {
			t.Errorf("ps: %v\n%s", err, out)
		}
	}
	close(stop)
	<-done
}
