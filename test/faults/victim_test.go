package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/apitable"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// gpuVictim is a victim with the ROCm runtime on the simulated GPU, and a thread that launches
// kernels.
type gpuVictim struct {
	*victim.Victim
	count  string // file
	spawns bool   // it makes threads all the time
	before residue
}

// onGPU starts a program of testdata/victims as a gpuVictim.
func onGPU(t *testing.T, name string, args ...string) *gpuVictim {
	t.Helper()
	cmd := exec.Command(victim.Path(t, name), args...)
	count := gpuEnv(t, cmd)
	return gpuRun(t, cmd, count)
}

// gpuEnv sets the environment of such a program in cmd; gpuRun starts it.
func gpuEnv(t *testing.T, cmd *exec.Cmd) (count string) {
	t.Helper()
	count = filepath.Join(t.TempDir(), "count")
	if err := os.WriteFile(count, make([]byte, 8), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"), "HOME=/",
		"LD_PRELOAD="+victim.Path(t, "gpuwork.so")+":"+testenv.Artefact(t, "libsoftgpu.so"),
		"GPUWORK_CODE="+testenv.Artefact(t, "workloads/kernels.hsaco"), "GPUWORK_COUNT="+count)
	return count
}

func gpuRun(t *testing.T, cmd *exec.Cmd, count string) *gpuVictim {
	t.Helper()
	v := &gpuVictim{Victim: victim.Run(t, cmd), count: count, spawns: slices.Contains(cmd.Args, "thread")}
	v.works(t)
	v.before = residueOf(t, v.PID)
	return v
}

// launched returns how many kernels of the victim have ended.
func (v *gpuVictim) launched(t *testing.T) uint64 {
	t.Helper()
	b, err := os.ReadFile(v.count)
	if err != nil || len(b) != 8 {
		t.Fatalf("the victim's counter: %v", err)
	}
	return binary.LittleEndian.Uint64(b)
}

// works checks that the victim's GPU work continues.
func (v *gpuVictim) works(t *testing.T) {
	t.Helper()
	from := v.launched(t)
	if !hang.Eventually(func() bool { return v.launched(t) > from+20 }) {
		t.Errorf("the victim's GPU work does not go on: %d kernels", from)
	}
}

// sound checks that a busy victim is unharmed, works, is not stopped or traced, and has nothing
// of the tool but a dormant payload.
func (v *gpuVictim) sound(t *testing.T) victim.Health {
	t.Helper()
	h := v.Unharmed(t)
	untraced(t, v.PID)
	v.works(t)
	v.onlyDormant(t)
	return h
}

// residue has everything that a session could leave in a target.
type residue struct {
	threads, fds, payloads, controls, rings int
	bootstrap                               []string
	slots                                   apitable.Slots // of the runtime's table
}

// String leaves out the slots.
func (r residue) String() string {
	return fmt.Sprintf("threads %d, descriptors %d, payloads %d, control blocks %d, rings %d, bootstrap %q",
		r.threads, r.fds, r.payloads, r.controls, r.rings, r.bootstrap)
}

// residueOf reads the residue in a process from outside.
func residueOf(t *testing.T, pid int) (r residue) {
	t.Helper()
	live := liveThread(pid)
	through := "task/" + live
	r.threads, r.fds = entries(t, pid, "task"), entries(t, pid, through+"/fd")
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s/maps", pid, through))
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[string]bool{}
	for line := range strings.Lines(string(maps)) {
		r.note(strings.Fields(line), inodes)
	}
	r.payloads = len(inodes)
	tid, _ := strconv.Atoi(live)
	if r.slots, err = apitable.Read(pid, tid); err != nil && !errors.Is(err, apitable.ErrAbsent) {
		t.Fatal(err)
	}
	return r
}

// liveThread returns a thread through which the process's memory can be read: the leader, unless
// it has ended.
func liveThread(pid int) string {
	leader := strconv.Itoa(pid)
	for _, tid := range append([]string{leader}, threadsOf(pid)...) {
		if state := statusOf(pid, tid)["State"]; state != "" && !strings.HasPrefix(state, "Z") {
			return tid
		}
	}
	return leader
}

func (r *residue) note(f []string, payloads map[string]bool) {
	start, end, _ := strings.Cut(f[0], "-")
	path := strings.Join(f[5:], " ")
	switch {
	// The bootstrap's mark is in the address of its code (internal/inject/address.go).
	case len(f) == 5 && f[1] == "r-xp" && strings.HasSuffix(start, "5254000") && strings.HasSuffix(end, "5255000"),
		strings.Contains(path, "rtl-boot"):
		r.bootstrap = append(r.bootstrap, strings.Join(f, " "))
	case strings.Contains(path, "rtl-payload"), strings.Contains(path, "librtl-attach"):
		payloads[f[4]] = true
	case strings.Contains(path, "rtl-control"):
		r.controls++
	case strings.Contains(path, "rtl-ring"):
		r.rings++
	}
}

func entries(t *testing.T, pid int, dir string) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, dir))
	if err != nil {
		t.Fatalf("the victim is gone: %v", err)
	}
	return len(list)
}

// onlyDormant checks that at most one payload is left and, if its entry was called, its control
// block, its descriptor and its sleeping thread.
func (v *gpuVictim) onlyDormant(t *testing.T) {
	t.Helper()
	v.left(t, func(now residue) bool {
		return now.payloads <= 1 && now.controls <= now.payloads && v.more(now) == now.controls
	})
}

// more returns the number of threads that were not there before.
func (v *gpuVictim) more(now residue) int {
	if v.spawns {
		return threadsOfOurs(v.PID)
	}
	return now.threads - v.before.threads
}

// asFound checks that nothing is left.
func (v *gpuVictim) asFound(t *testing.T) {
	t.Helper()
	v.left(t, func(now residue) bool {
		return now.payloads == 0 && now.controls == 0 && now.threads == v.before.threads
	})
}

// left waits for parts of the residue that end by themselves.
func (v *gpuVictim) left(t *testing.T, fine func(residue) bool) {
	t.Helper()
	var now residue
	if !hang.Eventually(func() bool {
		now = residueOf(t, v.PID)
		return fine(now) && now.fds <= v.before.fds+now.controls && now.rings == 0 && len(now.bootstrap) == 0 &&
			len(now.slots.Differ(v.before.slots)) == 0
	}) {
		t.Errorf("left in the victim: %v\nit was: %v\nslots changed: %v", now, v.before, now.slots.Differ(v.before.slots))
	}
}
