// Package victim starts the programs of testdata/victims for tests, reads their state, and checks
// that the tool has left nothing in them.
package victim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Victim is a running program.
type Victim struct {
	PID int
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan string
}

// Health is the state that the victim busy reports.
type Health struct {
	Threads []struct {
		Kind                            string
		TID                             int
		Beats, Harm, EINTR, Mask, Early uint64
		LateNS                          uint64 `json:"late_ns"`
	}
	Beats, Harm, EINTR, Mask, Early uint64
	RTSent                          uint64 `json:"rt_sent"`
	RTGot                           uint64 `json:"rt_got"`
	TimerDue                        uint64 `json:"timer_due"`
	TimerTicks                      uint64 `json:"timer_ticks"`
	Dispositions                    int    // 1: one has changed
}

// Path returns the path of an artefact of testdata/victims, as testenv.Artefact does.
func Path(t testing.TB, name string) string {
	t.Helper()
	return testenv.Artefact(t, filepath.Join("victims", name))
}

// Start starts a victim and waits until it prints that it is ready.
func Start(t testing.TB, name string, args ...string) *Victim {
	t.Helper()
	return Run(t, exec.Command(Path(t, name), args...))
}

// Run is Start with the caller's command.
func Run(t testing.TB, cmd *exec.Cmd) *Victim {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start victim: %v", err)
	}
	v := &Victim{PID: cmd.Process.Pid, cmd: cmd, in: in, out: make(chan string, 1)}
	go func() {
		defer close(v.out)
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			v.out <- sc.Text()
		}
	}()
	t.Cleanup(v.Stop)
	if line := v.Line(t); line != "ready" {
		t.Fatalf("victim said %q, not ready", line)
	}
	return v
}

// Stop ends the victim.
func (v *Victim) Stop() {
	_ = v.in.Close()
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait()
}

// Line returns the next line that the victim prints.
func (v *Victim) Line(t testing.TB) string {
	t.Helper()
	select {
	case line, ok := <-v.out:
		if !ok {
			t.Fatalf("victim %d has ended: %v", v.PID, v.cmd.Wait())
		}
		return line
	case <-time.After(hang.Limit):
		t.Fatalf("victim %d does not answer", v.PID)
	}
	return ""
}

// Ask returns the victim's answer to a one-letter question.
func (v *Victim) Ask(t testing.TB, question string) string {
	t.Helper()
	if _, err := io.WriteString(v.in, question); err != nil {
		t.Fatalf("ask victim %d: %v", v.PID, err)
	}
	return v.Line(t)
}

// Answered reports whether a line waits for Line.
func (v *Victim) Answered() bool { return len(v.out) > 0 }

// Health returns the state of the victim busy.
func (v *Victim) Health(t testing.TB) Health {
	t.Helper()
	var h Health
	if err := json.Unmarshal([]byte(v.Ask(t, "?")), &h); err != nil {
		t.Fatalf("victim's answer: %v", err)
	}
	return h
}

// Unharmed fails the test if the victim has noticed an effect of the tool.
func (v *Victim) Unharmed(t testing.TB) Health {
	t.Helper()
	h := v.Health(t)
	if h.Dispositions != 0 {
		t.Error("what the victim does on a signal has changed")
	}
	if h.Harm+h.EINTR+h.Mask+h.Early > 0 {
		for _, th := range h.Threads {
			if th.Harm+th.EINTR+th.Mask+th.Early > 0 {
				t.Errorf("thread %d (%s): harm %d, EINTR %d, mask %d, early %d",
					th.TID, th.Kind, th.Harm, th.EINTR, th.Mask, th.Early)
			}
		}
	}
	if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.PID)); !strings.Contains(string(b), "TracerPid:\t0\n") {
		t.Errorf("victim %d is still traced", v.PID)
	}
	v.goesOn(t, h)
	return h
}

// rare are busy's kinds that beat every 3 s, or when a test sends them a signal.
var rare = []string{"sleep3", "poll3", "sigsuspend", "pause", "futexpause"}

// goesOn fails the test unless each thread has worked since h.
func (v *Victim) goesOn(t testing.TB, h Health) {
	t.Helper()
	var hung []string
	if !hang.Eventually(func() bool {
		hung = nil
		for i, th := range v.Health(t).Threads {
			if th.Beats == h.Threads[i].Beats && !slices.Contains(rare, th.Kind) {
				hung = append(hung, fmt.Sprintf("%d (%s)", th.TID, th.Kind))
			}
		}
		return len(hung) == 0
	}) {
		t.Errorf("victim %d: these threads hang: %s", v.PID, strings.Join(hung, ", "))
	}
}

// Inventory counts what an injection could leave behind.
type Inventory struct {
	Threads, FDs int
	Ours         []string // mappings of the tool
}

// Inventory reads the victim's inventory from /proc.
func (v *Victim) Inventory(t testing.TB) Inventory {
	t.Helper()
	list := func(dir string) []os.DirEntry {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", v.PID, dir))
		if err != nil {
			t.Fatal(err)
		}
		return entries
	}
	inv := Inventory{Threads: len(list("task"))}
	for _, fd := range list("fd") {
		// libc opens a file below /sys for a moment when it makes an arena.
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", v.PID, fd.Name()))
		if err == nil && !strings.HasPrefix(name, "/sys/") {
			inv.FDs++
		}
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", v.PID))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if Bootstrap(strings.Fields(line)) {
			inv.Ours = append(inv.Ours, strings.TrimSpace(line))
		}
	}
	return inv
}

// AsBefore fails the test unless threads, descriptors and mappings are as in
// before. Things that end by themselves get a moment for it.
func (v *Victim) AsBefore(t testing.TB, before Inventory) {
	t.Helper()
	var now Inventory
	if !hang.Eventually(func() bool {
		now = v.Inventory(t)
		return now.Threads == before.Threads && now.FDs == before.FDs && len(now.Ours) == 0
	}) {
		t.Errorf("victim had %d threads and %d descriptors, now %d and %d; mappings of ours: %q",
			before.Threads, before.FDs, now.Threads, now.FDs, now.Ours)
	}
}

// Tell writes a letter and expects no answer.
func (v *Victim) Tell(t testing.TB, letter string) {
	t.Helper()
	if _, err := io.WriteString(v.in, letter); err != nil {
		t.Fatalf("tell victim %d: %v", v.PID, err)
	}
}

// Bootstrap says whether a line of maps, in fields, is the bootstrap's code: the mark is in
// its address (internal/inject/address.go). The application's may have such an address by
// chance, and ROCm has rwx memory of its own.
func Bootstrap(f []string) bool {
	start, end, _ := strings.Cut(f[0], "-")
	return len(f) == 5 && f[1] == "r-xp" && strings.HasSuffix(start, "5254000") && strings.HasSuffix(end, "5255000") ||
		strings.Contains(strings.Join(f[5:], " "), "rtl-boot")
}
