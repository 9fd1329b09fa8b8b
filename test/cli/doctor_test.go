package cli

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A patient is a process in some state. doctor predicts what an attach
// will come to: its exit code, and its cause in the same words.
type patient struct {
	name string
	code failure.ExitCode
	make func(*testing.T) *subject

	words  string   // that both causes have, where an attach learns more than can be seen
	doctor []string // more for its command line
	both   []string // more for both
	before []string // a command before both
}

var patients = []patient{
	{name: "serve", make: func(t *testing.T) *subject { return serve(t) }},
	{name: "hsastress", make: func(t *testing.T) *subject { return stress(t) }},
	{name: "server", make: func(t *testing.T) *subject { return startServer(t, "2", "600") }},
	{name: "server with a stopped worker", code: failure.SomeFailed, make: halfStopped},
	{name: "payload resident", make: dormant},
	{name: "recorder alive", code: failure.NotPermitted, make: recordedTarget},
	{name: "in namespaces of its own", make: namespaced},
	{name: "harmless seccomp filter", make: odd("reboot=kill"), doctor: []string{"--read-filters"}},
	{name: "seccomp refuses clone", code: failure.Unsuitable, make: odd("clone=refuse"), doctor: []string{"--read-filters"}},
	{name: "seccomp kills for memfd", code: failure.Unsuitable, make: odd("memfd=kill"), doctor: []string{"--read-filters"}},
	{name: "no ROCm", code: failure.Unsuitable, make: program("sleep", "100")},
	{name: "static", code: failure.Unsuitable, make: program("victims/static")},
	{name: "musl", code: failure.Unsuitable, make: program("victims/musl")},
	{name: "i386", code: failure.Unsuitable, make: i386},
	{name: "Go without libc", code: failure.Unsuitable, make: program("victims/golang")},
	{name: "kernel thread", code: failure.Unsuitable, make: func(*testing.T) *subject { return &subject{pid: 2} }},
	{name: "no /proc in its root", code: failure.Unsuitable, make: withoutProc},
	{name: "no such process", code: failure.NotPermitted, make: func(*testing.T) *subject { return &subject{pid: 4194304} }},
	{name: "zombie", code: failure.NotPermitted, make: zombie},
	{name: "stopped", code: failure.NotPermitted, make: stoppedTarget},
	{name: "traced", code: failure.NotPermitted, make: tracedTarget},
	{
		name: "another user's", code: failure.NotPermitted, make: func(t *testing.T) *subject { return stress(t) },
		before: []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"},
	},
	{
		name: "tool in another pid namespace", code: failure.NotPermitted, make: func(t *testing.T) *subject { return stress(t) },
		before: []string{"unshare", "--pid", "--fork", "--mount-proc"},
	},
	{
		name: "tool with a foreign /proc", code: failure.NotPermitted, make: func(t *testing.T) *subject { return stress(t) },
		before: []string{"unshare", "--pid", "--fork", "--mount"},
	},
	{name: "trace exists", code: failure.Failed, make: func(t *testing.T) *subject { return stress(t) }, both: []string{"-o", "/dev/null"}},
	{name: "asleep", code: failure.Failed, make: asleep},
	{name: "no address space left", code: failure.Failed, make: crowded},
	{name: "no thread allowed", code: failure.Failed, make: confined},
	{name: "limit of its user's threads", code: failure.Failed, make: crowdedUser, words: "clone in the target"},
	{name: "runtime not initialised", code: failure.Failed, make: program("victims/mapped"), words: "hsa_init has"},
}

// TestDoctorPredicts: what doctor says, an attach does.
func TestDoctorPredicts(t *testing.T) {
	for _, p := range patients {
		t.Run(p.name, func(t *testing.T) {
			s := p.make(t)
			d := p.ask(t, s)
			code, cause := p.attach(t, s)
			if code != int(p.code) || d.ExitCode != p.code {
				t.Fatalf("doctor predicts exit code %d (%s), the attach ends with %d (%s), expected %d",
					d.ExitCode, d.Cause, code, cause, p.code)
			}
			same := d.Cause == cause
			if p.words != "" {
				same = strings.Contains(d.Cause, p.words) && strings.Contains(cause, p.words)
			}
			if !same {
				t.Errorf("doctor gives the cause %q, the attach %q", d.Cause, cause)
			}
		})
	}
}

// command runs the tool as the patient's case has it, and returns its exit code.
func (p patient) command(t *testing.T, stdout, stderr *strings.Builder, args ...string) int {
	t.Helper()
	tool := filepath.Join(openFolder(t), "rtl-attach")
	if b, err := os.ReadFile(testenv.Artefact(t, "rtl-attach")); err != nil || os.WriteFile(tool, b, 0o755) != nil {
		t.Fatal("cannot copy the tool")
	}
	words := append(append(append([]string{}, p.before...), tool), args...)
	cmd := exec.Command(words[0], append(words[1:], p.both...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Dir(tool), stdout, stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		testenv.Skip(t, err.Error())
	}
	return cmd.ProcessState.ExitCode()
}

// openFolder is one that every user may read and write.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "doctor-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p patient) ask(t *testing.T, s *subject) (d preflight.Diagnosis) {
	t.Helper()
	var out, said strings.Builder
	code := p.command(t, &out, &said, append([]string{"doctor", "--json", strconv.Itoa(s.pid)}, p.doctor...)...)
	if err := json.Unmarshal([]byte(out.String()), &d); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), said.String())
	}
	if code != int(d.ExitCode) {
		t.Errorf("doctor ends with %d and says %d", code, d.ExitCode)
	}
	for _, c := range d.Checks {
		if c.Name == "" || c.LookedAt == "" || c.Result == "" || c.Result == preflight.Fails && (c.Cause == "" || c.Fix == "") {
			t.Errorf("a check lacks something: %+v", c)
		}
	}
	return d
}

// attach returns the exit code, 0 also where there was nothing to record, and the cause.
func (p patient) attach(t *testing.T, s *subject) (int, string) {
	t.Helper()
	var out, said strings.Builder
	code := p.command(t, &out, &said, "-p", strconv.Itoa(s.pid), "-d", "300ms", "--json")
	if code == int(failure.NothingSeen) {
		code = 0
	}
	_, cause, _ := strings.Cut(said.String(), "  cause   ")
	cause, _, _ = strings.Cut(cause, "\n")
	return code, cause
}

func halfStopped(t *testing.T) *subject {
	s := startServer(t, "2", "600")
	w := s.workers(t)[1]
	w.signal(t, unix.SIGSTOP)
	w.await(t, "State", "T")
	return s
}

func program(name string, args ...string) func(*testing.T) *subject {
	return func(t *testing.T) *subject {
		s := bystander(t, name, args...)
		if !hang.Eventually(func() bool { return strings.HasPrefix(s.field("State"), "S") }) {
			t.Fatalf("it is %s", s.field("State"))
		}
		return s
	}
}

func i386(t *testing.T) *subject {
	if !runsI386() {
		testenv.Skip(t, "this kernel runs no i386 programs")
	}
	return program("victims/tiny32")(t)
}

func (s *subject) field(name string) string { return statusOf(s.pid, strconv.Itoa(s.pid))[name] }

func (s *subject) await(t *testing.T, field, begin string) {
	t.Helper()
	if !hang.Eventually(func() bool { return strings.HasPrefix(s.field(field), begin) }) {
		t.Fatalf("%s is %q", field, s.field(field))
	}
}

func dormant(t *testing.T) *subject {
	s := stress(t)
	s.again(t)
	return s
}

func recordedTarget(t *testing.T) *subject {
	s := stress(t)
	r := s.record(t, hang.Limit)
	r.Says(t, "attached")
	t.Cleanup(func() { _ = r.Cmd.Process.Signal(unix.SIGINT); r.Exit(t) })
	return s
}

// namespaced is a server in pid and mount namespaces of its own.
func namespaced(t *testing.T) *subject {
	needsRoot(t)
	cmd := exec.Command("unshare", "--pid", "--mount-proc", "--fork", "--kill-child", testenv.Artefact(t, "workloads/serve"), "--rate", "50", "--kernels", "16")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "LD_PRELOAD=" + testenv.Artefact(t, "libsoftgpu.so")}
	s := start(t, cmd)
	s.pid = cmd.Process.Pid
	if !hang.Eventually(func() bool { s.pid = childOf(cmd.Process.Pid); return s.pid != 0 }) {
		t.Fatal("it has no process in its namespace")
	}
	return s
}

func childOf(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	child, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.Atoi(child)
	return n
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
}

// odd is a GPU process with a seccomp filter (testdata/victims/odd.c).
func odd(filter string) func(*testing.T) *subject {
	return func(t *testing.T) *subject {
		needsRoot(t)
		s := onGPUWork(t, "", testenv.Artefact(t, "victims/odd"), filter)
		_, err := fmt.Fprint(s.in, "s")
		if err != nil {
			t.Fatal(err)
		}
		s.await(t, "Seccomp", "2")
		return s
	}
}

// onGPUWork is a program with gpuwork.so in it, after a shell's words.
func onGPUWork(t *testing.T, before string, words ...string) *subject {
	t.Helper()
	dir := t.TempDir()
	count, said := filepath.Join(dir, "count"), filepath.Join(dir, "said")
	if err := os.WriteFile(count, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	preload := testenv.Artefact(t, "victims/gpuwork.so") + ":" + testenv.Artefact(t, "libsoftgpu.so")
	script := before + ` exec env LD_PRELOAD=` + preload +
		` GPUWORK_CODE=` + testenv.Artefact(t, "workloads/kernels.hsaco") + ` GPUWORK_COUNT=` + count + ` "$0" "$@" >` + said
	s := bystander(t, "sh", append([]string{"-c", script}, words...)...)
	if !hang.Eventually(func() bool {
		b, err := os.ReadFile(count)
		return err == nil && len(b) == 8 && binary.LittleEndian.Uint64(b) > 0
	}) {
		t.Fatal("it launches no kernel")
	}
	if !hang.Eventually(func() bool {
		b, err := os.ReadFile(said)
		return err == nil && string(b) == "ready\n"
	}) {
		t.Fatal("its main thread is not ready")
	}
	return s
}

// withoutProc is a process in a mount namespace without a /proc.
func withoutProc(t *testing.T) *subject {
	needsRoot(t)
	s := bystander(t, "unshare", "--mount", "sh", "-c",
		`mount --make-rprivate / && mount -t tmpfs none /proc && exec "$0"`, testenv.Artefact(t, "victims/mapped"))
	if !hang.Eventually(func() bool {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.pid))
		return strings.HasSuffix(name, "/mapped") && strings.HasPrefix(s.field("State"), "S")
	}) {
		t.Fatal("it has not started")
	}
	return s
}

func zombie(t *testing.T) *subject {
	s := bystander(t, "sleep", "100")
	s.signal(t, unix.SIGKILL)
	s.await(t, "State", "Z")
	return s
}

func stoppedTarget(t *testing.T) *subject {
	s := stress(t)
	s.signal(t, unix.SIGSTOP)
	s.await(t, "State", "T")
	return s
}

func tracedTarget(t *testing.T) *subject {
	s := stress(t)
	tracer := exec.Command("strace", "-qq", "-o", "/dev/null", "-e", "trace=none", "-p", strconv.Itoa(s.pid))
	if err := tracer.Start(); err != nil {
		testenv.Skip(t, err.Error())
	}
	t.Cleanup(func() { _ = tracer.Process.Signal(unix.SIGINT); _ = tracer.Wait() })
	if !hang.Eventually(func() bool { n := s.field("TracerPid"); return n != "" && n != "0" }) {
		t.Fatal("nobody traces it")
	}
	return s
}

func asleep(t *testing.T) *subject {
	s := bystander(t, "victims/mapped")
	if _, err := fmt.Fprint(s.in, "v"); err != nil {
		t.Fatal(err)
	}
	s.await(t, "State", "D")
	t.Cleanup(func() { _, _ = fmt.Fprint(s.in, "e") })
	return s
}

// crowded may map no further memory (RLIMIT_AS).
func crowded(t *testing.T) *subject {
	s := onGPUWork(t, "", testenv.Artefact(t, "victims/odd"))
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: pages * uint64(os.Getpagesize()), Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(s.pid, unix.RLIMIT_AS, &limit, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// confined may have no further thread (pids.max).
func confined(t *testing.T) *subject {
	home := "/sys/fs/cgroup/pids"
	if _, err := os.Stat(home); err != nil {
		home = "/sys/fs/cgroup"
	}
	s := onGPUWork(t, "", testenv.Artefact(t, "victims/odd"))
	dir := filepath.Join(home, fmt.Sprintf("rtl-story-%d", s.pid))
	if err := os.Mkdir(dir, 0o700); err != nil {
		testenv.Skip(t, "no control group can be made: "+err.Error())
	}
	t.Cleanup(func() {
		s.signal(t, unix.SIGKILL)
		if !hang.Eventually(func() bool { return os.Remove(dir) == nil }) {
			t.Errorf("%s cannot be removed", dir)
		}
	})
	for _, f := range [][2]string{{"cgroup.procs", strconv.Itoa(s.pid)}, {"pids.max", strconv.Itoa(s.count(t, "task"))}} {
		if err := os.WriteFile(filepath.Join(dir, f[0]), []byte(f[1]), 0o600); err != nil {
			testenv.Skip(t, "no control group that limits threads: "+err.Error())
		}
	}
	return s
}

// crowdedUser is the only process of a user who may have no more threads.
func crowdedUser(t *testing.T) *subject {
	needsRoot(t)
	program := filepath.Join(openFolder(t), "mapped")
	if b, err := os.ReadFile(testenv.Artefact(t, "victims/mapped")); err != nil || os.WriteFile(program, b, 0o755) != nil {
		t.Fatal("cannot copy the program")
	}
	s := bystander(t, "setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", program)
	if !hang.Eventually(func() bool { return s.field("Name") == "mapped" && strings.HasPrefix(s.field("State"), "S") }) {
		t.Fatal("it has not started")
	}
	if _, err := fmt.Fprint(s.in, "n"); err != nil {
		t.Fatal(err)
	}
	if !hang.Eventually(func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.pid))
		_, after, _ := strings.Cut(string(b), "Max processes")
		return err == nil && strings.HasPrefix(strings.TrimSpace(after), "1 ")
	}) {
		t.Fatal("its limit stays")
	}
	return s
}

// TestDoctorTouchesNothing: by its system calls, doctor traces no process and writes into no
// process's memory.
func TestDoctorTouchesNothing(t *testing.T) {
	s := stress(t)
	before := s.inventory(t)
	calls := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command("strace", "-f", "-qq", "-o", calls, "-e", "trace=ptrace,process_vm_writev,pwrite64,pwritev,kill,tkill,pidfd_send_signal",
		"-e", "signal=none", testenv.Artefact(t, "rtl-attach"), "doctor", strconv.Itoa(s.pid))
	if out, err := cmd.CombinedOutput(); err != nil {
		if cmd.ProcessState == nil {
			testenv.Skip(t, err.Error())
		}
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for call := range strings.Lines(string(b)) {
		nobody := strings.Contains(call, "ptrace(PTRACE_INTERRUPT, 0)") // asks whether ptrace may be called
		nothing := strings.Contains(call, "pidfd_send_signal(") && strings.Contains(call, ", 0, NULL, 0)")
		unknown := strings.Contains(call, " ???(") // strace has let go of a thread that was just ending
		if !nobody && !nothing && !unknown {
			t.Errorf("doctor calls %s", call)
		}
	}
	now := s.inventory(t)
	if now.fds = before.fds; fmt.Sprint(now) != fmt.Sprint(before) { // it opens and closes some itself
		t.Errorf("the target had %+v, now %+v", before, now)
	}
	s.unharmed(t)
}
