package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// server starts a front end and its GPU workers. What the workers have in their
// command lines is in no other process's: the tool finds them by it.
func (st *stage) server(ts *testscript.TestScript, name, workers string) *subject {
	mark := strconv.Itoa(1e8 + os.Getpid())
	s := startServer(st.t, workers, mark)
	ts.Setenv(name+"_MARK", mark)
	for rank, w := range s.workers(st.t) {
		st.targets[name+strconv.Itoa(rank)] = w
		ts.Setenv(name+strconv.Itoa(rank), strconv.Itoa(w.pid))
	}
	return s
}

// startServer returns when all its workers launch kernels.
func startServer(t *testing.T, workers, seconds string) *subject {
	t.Helper()
	cmd := exec.Command(testenv.Artefact(t, "workloads/frontend"), "--workers", workers, "--preload", testenv.Artefact(t, "libsoftgpu.so"),
		"--", testenv.Artefact(t, "workloads/serve"), "--threads", "2", "--streams", "2", "--rate", "20", "--kernels", "16", "--seconds", seconds)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	s := start(t, cmd)
	for rank, w := range s.workers(t) {
		if !hang.Eventually(func() bool { return w.launches(t) > 0 }) {
			t.Fatalf("worker %d does nothing", rank)
		}
	}
	return s
}

// workers returns the ready workers of a server, by rank.
func (s *subject) workers(t testing.TB) map[int]*subject {
	t.Helper()
	text, err := s.ask("/workers")
	if err != nil {
		t.Fatalf("the front end does not answer: %v", err)
	}
	found := map[int]*subject{}
	for line := range strings.Lines(text) {
		var rank int
		w := &subject{}
		if n, _ := fmt.Sscan(line, &rank, &w.pid, &w.port); n == 3 && w.port != 0 {
			found[rank] = w
		}
	}
	return found
}

func successor(ts *testscript.TestScript, _ bool, args []string) {
	st := stageOf(ts)
	s := st.target(ts, args)
	rank, err := strconv.Atoi(args[1])
	ts.Check(err)
	before := ts.Getenv(args[0] + args[1])
	if !hang.Eventually(func() bool {
		w := s.workers(st.t)[rank]
		return w != nil && strconv.Itoa(w.pid) != before
	}) {
		ts.Fatalf("worker %d is not replaced", rank)
	}
}

// TestForkedCopy: a child that has the runtime and the driver from its parent, by
// fork, holds no GPU: the parent is recorded as if it were alone.
func TestForkedCopy(t *testing.T) {
	f := startForker(t)
	child := f.keep(t)
	r := f.record(t, 300*time.Millisecond)
	r.MustExit(t, 7) // barrier packets carry no kernel
	if said := r.Stderr.String(); !strings.Contains(said, fmt.Sprintf("preflight   pid %d (forker)", f.pid)) {
		t.Errorf("it is not recorded alone:\n%s", said)
	}
	if child.status(t).Resident {
		t.Error("the copy was attached to")
	}
	if said := f.tell(t, "e"); said != "child 0" {
		t.Errorf("the child ended: %s", said)
	}
}

// family is a GPU process that has another one as its child.
func family(t *testing.T) (parent, child *subject) {
	t.Helper()
	said := filepath.Join(t.TempDir(), "child")
	gpu := onGPU(t, "workloads/serve", "--threads", "2", "--streams", "2", "--rate", "20", "--kernels", "16")
	cmd := exec.Command("sh", append([]string{"-c", `"$@" >` + said + ` & exec "$@"`, "sh"}, gpu.Args...)...)
	cmd.Env = gpu.Env
	parent, child = start(t, cmd), &subject{}
	if !hang.Eventually(func() bool {
		line, _ := os.ReadFile(said)
		n, _ := fmt.Sscanf(string(line), "ready pid=%d port=%d", &child.pid, &child.port)
		return n == 2
	}) {
		t.Fatal("the child is not ready")
	}
	t.Cleanup(func() { _ = unix.Kill(child.pid, unix.SIGKILL) })
	progresses(t, parent)
	progresses(t, child)
	return parent, child
}

// TestDetachBelow: by the pid of a server that has a GPU itself, its workers are
// detached from, too, whether it is recorded or was only once.
func TestDetachBelow(t *testing.T) {
	parent, child := family(t)
	for _, who := range []*subject{parent, child} {
		r := who.record(t, hang.Limit)
		r.Says(t, "attached")
		who.written(t)
		d := tool(t, "", "detach", strconv.Itoa(parent.pid))
		d.MustExit(t, 0)
		r.MustExit(t, 0)
		for _, s := range []*subject{parent, child} {
			if st := s.status(t); st.State != "dormant" {
				t.Errorf("pid %d is %s\n%s", s.pid, st.State, d.Stderr.String())
			}
			s.unharmed(t)
		}
		if said := d.Stderr.String(); !strings.Contains(said, fmt.Sprintf("pid %d: the recording has ended", child.pid)) {
			t.Errorf("detach does not say whom it ended:\n%s", said)
		}
	}
}
