package harness

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/victim"
)

// Snapshot is the state of a process in /proc.
type Snapshot struct {
	Threads   map[int]string // name by tid
	Maps      map[string]int // count by name; anonymous ones are one name
	FDs       map[string]int // count by target
	RSSKiB    int
	HostKiB   int // of it, without what the runtime shares with the GPU
	TracerPID int

	frees bool // it frees memory of the GPU while it runs
}

// Snapshot reads the state of the process without stopping it.
func (p *Process) Snapshot(t testing.TB) Snapshot {
	t.Helper()
	s := Snapshot{frees: p.frees, Threads: p.threads(), Maps: map[string]int{}, FDs: map[string]int{}}
	for _, line := range p.lines(t, "maps") {
		s.Maps[mapName(line)]++
	}
	for _, line := range p.lines(t, "status") {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmRSS":
			s.RSSKiB = kiB(value)
		case "TracerPid":
			s.TracerPID, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	s.HostKiB = p.hostKiB(t)
	fds, err := os.ReadDir(p.proc("fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if link, err := os.Readlink(p.proc("fd", fd.Name())); err == nil {
			s.FDs[fdName(link)]++
		}
	}
	return s
}

// kiB reads a size in /proc.
func kiB(value string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
	return n
}

// ResidentKiB returns the most resident memory that the command has had so far.
func (c *Command) ResidentKiB(t testing.TB) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	value, _, _ := strings.Cut(rest, "\n")
	return kiB(value)
}

// hostKiB returns the resident memory that the runtime does not share with the GPU; shared memory
// has MADV_DONTFORK.
func (p *Process) hostKiB(t testing.TB) (total int) {
	t.Helper()
	resident := 0
	for _, line := range p.lines(t, "smaps") {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "Rss":
			resident = kiB(value)
		case "VmFlags":
			if !slices.Contains(strings.Fields(value), "dc") {
				total += resident
			}
		}
	}
	return total
}

func (p *Process) proc(path ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(p.PID)}, path...)...)
}

func (p *Process) lines(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(p.proc(file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// Stopped lists the threads that are stopped or traced.
func (p *Process) Stopped() []string {
	var out []string
	for tid, name := range p.threads() {
		status, _ := os.ReadFile(p.proc("task", strconv.Itoa(tid), "status"))
		for line := range strings.Lines(string(status)) {
			field, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			if field == "State" && strings.ContainsAny(value[:1], "tT") || field == "TracerPid" && value != "0" {
				out = append(out, fmt.Sprintf("thread %d (%s): %s %s", tid, name, field, value))
			}
		}
	}
	return out
}

func (p *Process) threads() map[int]string {
	threads := map[int]string{}
	tasks, _ := os.ReadDir(p.proc("task"))
	for _, task := range tasks {
		name, err := os.ReadFile(p.proc("task", task.Name(), "comm"))
		if tid, bad := strconv.Atoi(task.Name()); err == nil && bad == nil {
			threads[tid] = strings.TrimSuffix(string(name), "\n")
		}
	}
	return threads
}

// TIDs are the process's threads now, or at its end; nil: a trace has other numbers.
func (p *Process) TIDs() map[int64]bool {
	if p.contained {
		return nil
	}
	if p.quitting && p.tids != nil {
		return p.tids
	}
	tids := map[int64]bool{}
	for tid := range p.threads() {
		tids[int64(tid)] = true
	}
	return tids
}

// mapName returns the name of a mapping. All anonymous mappings have one name, because neighbours
// merge and split.
func mapName(line string) string {
	fields := strings.Fields(line)
	switch {
	case victim.Bootstrap(fields):
		return "a bootstrap"
	case len(fields) < 6:
		return "anonymous"
	}
	return unlinked(strings.Join(fields[5:], " "))
}

var numbers = regexp.MustCompile(`\[\d+\]`)

// fdName: sockets and pipes come and go under numbers.
func fdName(link string) string { return unlinked(numbers.ReplaceAllString(link, "")) }

// unlinked: the process that ends first, perhaps another test, unlinks files of /dev/shm.
func unlinked(name string) string {
	if strings.HasPrefix(name, "/dev/shm/") {
		return strings.TrimSuffix(name, " (deleted)")
	}
	return name
}

// Ours is what a detach leaves visible in /proc (docs/guide/your-process.md): nothing else may be
// new.
func Ours() (thread, payload, control string) {
	return "rtl-control", "/memfd:rtl-payload (deleted)", "/memfd:rtl-control (deleted)"
}

// GPUMemory begins the names of the mappings that the runtime shares with the
// simulated GPU.
const GPUMemory = "/memfd:softgpu:render"

// Left lists the differences of s, a target without a session, from before, except for the
// inventory of a detach. The runtime keeps the memory of pool signals; ROCr 7.2 maps it from the
// GPU's device, older versions use anonymous memory. A workload that frees such
// memory itself has fewer mappings at one time than at another.
func (s Snapshot) Left(before Snapshot) []string {
	thread, payload, control := Ours()
	allowed := []string{"thread " + thread + " ×1", "map " + control + " ×1", "map " + payload + " ×5", "fd " + control + " ×1"}
	out := slices.DeleteFunc(s.Came(before), func(item string) bool {
		return slices.Contains(allowed, item) || strings.HasPrefix(item, "map "+GPUMemory)
	})
	for _, item := range s.Went(before) {
		if !s.frees || !strings.HasPrefix(item, "map "+GPUMemory) {
			out = append(out, "missing: "+item)
		}
	}
	return out
}

// Came lists everything in s that was not in before: threads by name, mappings and descriptors by
// count. It ignores anonymous memory.
func (s Snapshot) Came(before Snapshot) []string { return difference(s, before) }

// Went lists everything in before that is missing in s.
func (s Snapshot) Went(before Snapshot) []string { return difference(before, s) }

func difference(s, than Snapshot) []string {
	var out []string
	threads, had := map[string]int{}, map[string]int{}
	for _, name := range s.Threads {
		threads[name]++
	}
	for _, name := range than.Threads {
		had[name]++
	}
	list := func(what string, now, then map[string]int) {
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if n := now[name] - then[name]; n > 0 && name != "anonymous" {
				out = append(out, fmt.Sprintf("%s %s ×%d", what, name, n))
			}
		}
	}
	list("thread", threads, had)
	list("map", s.Maps, than.Maps)
	list("fd", s.FDs, than.FDs)
	return out
}

// ThreadNamed returns the only thread of that name, or 0.
func (s Snapshot) ThreadNamed(name string) int {
	found := 0
	for tid, n := range s.Threads {
		if n != name {
			continue
		}
		if found != 0 {
			return 0
		}
		found = tid
	}
	return found
}

// Sleeps reports whether a thread sleeps in a futex wait without a time-out.
func (p *Process) Sleeps(tid int) bool {
	b, err := os.ReadFile(p.proc("task", strconv.Itoa(tid), "syscall"))
	// syscall(2) number, then its arguments: futex(addr, op, value, time-out)
	f := strings.Fields(string(b))
	return err == nil && len(f) > 5 && f[0] == "202" && f[4] == "0x0"
}
