package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	rtlpayload "github.com/rtl-attach/rtl-attach/payload"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// Group F: kinds of programs.
var binaries = []row{
	{"48", "static", "refused, untouched", unsuitable("static", "linked statically")},
	{"49", "musl", "refused, untouched", unsuitable("musl", "musl libc")},
	{"50a", "Go without libc", "refused, untouched", unsuitable("golang", "linked statically")},
	{"50b", "Go on glibc", "attached, its goroutines work on", goOnLibc},
	{"51a", "i386", "refused, untouched", foreign("tiny32", "i386", "CONFIG_IA32_EMULATION")},
	{"51b", "x32", "refused, untouched", foreign("tinyx32", "x32", "CONFIG_X86_X32_ABI")},
	{"52a", "glibc of Debian 13", "attached", onDebian("trixie")},
	{"52b", "glibc of Debian unstable", "attached", onDebian("sid")},
	{"52c", "glibc of Debian 11, functions in three libraries", "injected, the payload loads", oldLibc},
	{"53a", "libc replaced on disk", "attached", replaced("libc.so.6")},
	{"53b", "ROCr replaced on disk", "attached", replaced("libhsa-runtime64.so.1")},
	{"54a", "jemalloc", "injected, attached", allocator("libjemalloc.so.2")},
	{"54b", "tcmalloc", "injected, attached", allocator("libtcmalloc_minimal.so.4")},
	{"54c", "AddressSanitizer", "injected, attached", allocator("libasan.so")},
	{"55", "two libcs through dlmopen", "injected, attached", twoLibcs},
	{"56", "fs_base changed by a runtime", "its threads stopped, passed over, kept; injected, attached through others", foreignThreadPointers},
}

// unsuitable checks that the tool refuses a program because of its kind.
func unsuitable(program, word string) func(*testing.T) string {
	return func(t *testing.T) string {
		v := bystander(t, program)
		said := refused(t, v.PID, failure.Unsuitable, word, "target  not touched")
		v.Tell(t, "\n") // its end
		if !hang.Eventually(func() bool { return states(v.PID)["Z"] > 0 }) {
			t.Error("it does not go on to its end")
		}
		return said
	}
}

// goOnLibc: its goroutines check what they compute, and a thread in C what it keeps.
func goOnLibc(t *testing.T) string {
	v, n := onGPU(t, "gohsa"), repeat(3, 50)
	var a attaches
	worked := roundsOf(t, v.Ask(t, "?"))
	first := worked
	for range n {
		a.record(t, v.PID)
		now := roundsOf(t, v.Ask(t, "?"))
		if now <= worked {
			t.Errorf("its goroutines do not work on: %d rounds, %d before the attach", now, worked)
		}
		worked = now
	}
	said := v.unharmed(t)
	v.left(t, func(now residue) bool { // its runtime makes threads as it likes
		return now.payloads <= 1 && now.controls <= now.payloads && threadsOfOurs(v.PID) == now.controls
	})
	return fmt.Sprintf("%v; %d rounds meanwhile; %s", a, worked-first, said)
}

// threadsOfOurs returns a process's threads with this tool's names (rtl-control, rtl-worker,
// rtl-boot).
func threadsOfOurs(pid int) (n int) {
	for _, tid := range threadsOf(pid) {
		if strings.HasPrefix(statusOf(pid, tid)["Name"], "rtl-") {
			n++
		}
	}
	return n
}

// roundsOf returns the count of work in a victim's answer.
func roundsOf(t *testing.T, answer string) (rounds uint64) {
	t.Helper()
	if _, err := fmt.Sscanf(answer, "rounds %d harm", &rounds); err != nil {
		t.Fatalf("the victim says %q", answer)
	}
	return rounds
}

// foreign returns a program of another ABI, which the kernel may refuse to run.
func foreign(program, abi, option string) func(*testing.T) string {
	return func(t *testing.T) string {
		path := filepath.Join(filepath.Dir(testenv.Artefact(t, "rtl-attach")), "victims", program)
		err := exec.Command(path).Run() // it ends with its input
		switch {
		case errors.Is(err, os.ErrNotExist):
			cannot(t, "the assembler that made the victims knows no "+abi)
		case errors.Is(err, unix.ENOEXEC):
			cannot(t, "this kernel runs no "+abi+" programs ("+option+"); that they are told: TestMachineName of internal/target")
		case err != nil:
			t.Fatal(err)
		}
		return unsuitable(program, abi)(t)
	}
}

func onDebian(suite string) func(*testing.T) string {
	return func(t *testing.T) string {
		v := container{root: debian(t, suite), flags: containerFlags}.onGPU(t, "busy")
		return libraries(t, v.PID) + ": " + v.attachedBusy(t, repeat(3, 50))
	}
}

// oldLibc: no ROCr runs with it on this machine, so the test calls only the injector, with the
// real payload, which is loaded and answers.
func oldLibc(t *testing.T) string {
	root := debian(t, "bullseye")
	dir := openDir(t)
	build := linkedIn(root, filepath.Join(dir, "plain"), "../../testdata/victims/plain.c", "../../testdata/victims/checked.S")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	v := victim.Run(t, container{root: root, flags: containerFlags}.command(t, dir, "/mnt/plain"))
	before, said := v.Inventory(t), libraries(t, v.PID)
	library, err := rtlpayload.Library()
	if err != nil {
		t.Fatal(err)
	}
	env, err := envbuf.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := injected(t, v, inject.Request{Library: library, Entry: "rtl_attach", Env: env})
	if err != nil {
		t.Fatal(err)
	}
	result := unix.Errno(-rep.EntryResult)
	if result != unix.ENODEV && result != unix.ENOENT {
		t.Errorf("the entry returned %d (%v), without a ROCm runtime", rep.EntryResult, result)
	}
	if answer := v.Ask(t, "?"); answer != "harm 0" {
		t.Errorf("the victim was harmed: %s", answer)
	}
	untraced(t, v.PID)
	after := v.Inventory(t)
	if len(after.Ours) > 0 || after.Threads > before.Threads+1 {
		t.Errorf("left in it: %+v; it was %+v", after, before)
	}
	return fmt.Sprintf("%s: the payload's entry says %v, as there is no ROCm; %d stops", said, result, len(rep.Pauses))
}

// linkedIn compiles for the C library of a root file system. By default the compiler would find
// the machine's own C library first, and the loader through absolute links.
func linkedIn(root, to string, from ...string) *exec.Cmd {
	libs, parts := root+"/lib/x86_64-linux-gnu/", root+"/usr/lib/x86_64-linux-gnu"
	args := append([]string{"--sysroot=" + root, "-B" + parts, "-std=gnu11", "-nodefaultlibs", "-o", to}, from...)
	return exec.Command("gcc", append(args,
		libs+"libc.so.6", libs+"libpthread.so.0", libs+"libdl.so.2", parts+"/libc_nonshared.a", "-lgcc", "-Wl,--allow-shlib-undefined")...)
}

// replaced: an upgrade has replaced the file of one of the target's libraries.
func replaced(name string) func(*testing.T) string {
	return func(t *testing.T) string {
		dir := t.TempDir()
		content, err := os.ReadFile("/lib/x86_64-linux-gnu/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for path, content := range map[string][]byte{name: content, "new": []byte("another file")} {
			if err := os.WriteFile(filepath.Join(dir, path), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(victim.Path(t, "busy"))
		count := gpuEnv(t, cmd)
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+dir)
		v := gpuRun(t, cmd, count)
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if mapping(v.PID, filepath.Join(dir, name), "(deleted)") == "" {
			t.Fatal("the victim does not run on a deleted library: nothing is tested")
		}
		return name + " (deleted): " + v.attachedBusy(t, repeat(3, 50))
	}
}

// allocator: each allocator has separate storage for every thread.
func allocator(name string) func(*testing.T) string {
	return func(t *testing.T) string {
		path, err := installed(name)
		if err != nil {
			cannot(t, name+" is not installed")
		}
		kinds := []string{"futex", "malloc", "malloc", "read", "altstack", "sigsuspend"}
		return program{name: "busy", args: kinds, preload: path}.attached(t)
	}
}

// installed returns the library that the compiler finds.
func installed(name string) (string, error) {
	out, err := exec.Command("gcc", "-print-file-name="+name).Output()
	if err != nil {
		return "", err
	}
	path := strings.TrimSpace(string(out))
	if !filepath.IsAbs(path) {
		return "", errors.New("not found")
	}
	return filepath.EvalSymlinks(path)
}

func twoLibcs(t *testing.T) string {
	return program{name: "odd", args: []string{"twolibcs", "mallocs"}, check: func(t *testing.T, r *stateReport) {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", r.v.PID))
		if err != nil {
			t.Fatal(err)
		}
		copies := 0
		for line := range strings.Lines(string(maps)) {
			if strings.Contains(line, "/libc.so.6") && strings.Contains(line, "r-xp") {
				copies++
			}
		}
		if copies != 2 {
			t.Fatalf("%d libcs: nothing is tested", copies)
		}
	}}.attached(t)
}

// foreignThreadPointers: two such threads wait where threads are taken from first,
// ahead of the main thread. Both must be stopped, and no injection may use one. One that
// has been stopped may still be on its way back into its wait when the next comes.
func foreignThreadPointers(t *testing.T) string {
	const waiting = 2
	passedOver := 0
	text := program{name: "odd", args: []string{"fsbase"}, check: func(t *testing.T, r *stateReport) {
		foreign, stopped := named(r.v.PID, "elsewhere"), map[int]int{}
		for _, rep := range r.reports {
			for _, p := range rep.Pauses {
				if !foreign[p.TID] {
					continue
				}
				if stopped[p.TID]++; p.Used {
					t.Errorf("thread %d was borrowed: %+v", p.TID, rep)
				}
				passedOver++
			}
		}
		if len(stopped) < waiting {
			t.Errorf("of %d threads with another fs_base these were stopped so often: %v", waiting, stopped)
		}
	}}.attached(t)
	return fmt.Sprintf("threads with another fs_base passed over %d times; %s", passedOver, text)
}

// named returns the threads of a process with this name.
func named(pid int, name string) map[int]bool {
	all := map[int]bool{}
	for _, text := range threadsOf(pid) {
		tid, _ := strconv.Atoi(text)
		all[tid] = statusOf(pid, text)["Name"] == name
	}
	return all
}
