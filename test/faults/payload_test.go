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
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// Group G: invalid payloads.
var payload = []row{
	{"57a", "the tool has no such file", "said, untouched", noFile},
	{"57b", "the target has no such file", "the loader's own text", refusedByLoader(
		inject.Request{LibraryPath: "/nowhere/payload.so", Entry: "rtl_attach"},
		"/nowhere/payload.so: cannot open shared object file: No such file or directory")},
	{"57c", "no ELF file", "the loader's own text", refusedByLoader(
		inject.Request{Library: []byte("#!/bin/sh\n"), Entry: "rtl_attach"}, "file too short")},
	{"58a", "undefined symbol", "the loader's own text", refusedByTool("undefined.so", "undefined symbol: rtl_nobody_has_this")},
	{"58b", "no such entry", "the loader's own text", noEntry},
	{"59a", "constructor crash", "diagnosed", crash("crash.so", "rtl_attach", "load the payload")},
	{"59b", "entry crash", "diagnosed", crash("payload.so", "rtl_crash", "return from the payload's entry")},
	{"60a", "constructor hangs", "time-out, pause unaffected; leaves once it is back", constructorHangs},
	{"60b", "entry hangs", "time-out, pause unaffected; leaves once it is back", entryHangs},
	{"61", "entry returns an error", "the error", entryFails},
	{"62", "static TLS used up", "the loader's own text", refusedByTool("tls.so", "cannot allocate memory in static TLS block")},
	{"63a", "another build is resident, its ABI matches", "used, and said", otherBuild},
	{"63b", "another build is resident, its ABI does not match", "refused with how to get rid of it", otherABI},
	{"63c", "another library with the same entry", "the one that was asked for is called", twoLibraries},
}

func noFile(t *testing.T) string {
	v := onGPU(t, "busy", "futex", "read")
	r := record(t, v.PID, "--payload", "/nowhere/payload.so")
	said := r.Stderr.String()
	if r.Code != 1 || !strings.Contains(said, "/nowhere/payload.so: no such file") || !strings.Contains(said, "not touched") {
		t.Errorf("exit code %d\n%s", r.Code, said)
	}
	v.sound(t)
	v.asFound(t)
	return fmt.Sprintf("exit code %d, %q", r.Code, lineOf(said, "rtl-attach: error:"))
}

// refusedByLoader calls the injector for payloads that the tool never loads.
func refusedByLoader(r inject.Request, text string) func(*testing.T) string {
	return func(t *testing.T) string {
		v := onGPU(t, "busy", "futex", "read", "malloc")
		before := v.Inventory(t)
		_, err := injected(t, v.Victim, r)
		var refused *inject.LoadError
		if !errors.As(err, &refused) || !strings.Contains(refused.Text, text) {
			t.Fatalf("error %v, want the loader's text %q", err, text)
		}
		v.Unharmed(t)
		v.AsBefore(t, before)
		timed := record(t, v.PID).ok(t)
		return fmt.Sprintf("%q; then %d dispatches timed", refused.Text, timed)
	}
}

func noEntry(t *testing.T) string {
	return refusedByLoader(inject.Request{Library: library(t, "payload.so"), Entry: "rtl_unknown"},
		"undefined symbol: rtl_unknown")(t)
}

func refusedByTool(name, text string) func(*testing.T) string {
	return func(t *testing.T) string {
		v := onGPU(t, "busy", "futex", "read", "malloc")
		r := record(t, v.PID, "--payload", victim.Path(t, name))
		said := r.Stderr.String()
		if r.Code != 1 || !strings.Contains(lineOf(said, "cause"), text) || !strings.Contains(said, "as found") {
			t.Errorf("exit code %d, want the loader's text %q\n%s", r.Code, text, said)
		}
		v.sound(t)
		v.asFound(t)
		timed := record(t, v.PID).ok(t)
		v.sound(t)
		return fmt.Sprintf("exit code %d, %q; then %d dispatches timed", r.Code, lineOf(said, "cause"), timed)
	}
}

// crash: the payload kills the target. The injector names the step; so does the tool, if it can
// load such a payload.
func crash(lib, entry, step string) func(*testing.T) string {
	return func(t *testing.T) string {
		v := victim.Start(t, "busy", "futex", "read")
		_, err := injected(t, v, inject.Request{Library: library(t, lib), Entry: entry})
		if !errors.Is(err, target.ErrGone) || !strings.Contains(err.Error(), step) {
			t.Errorf("error %v, want one that says that the target died when it was to %s", err, step)
		}
		if entry != "rtl_attach" {
			return err.Error()
		}
		g := onGPU(t, "busy", "futex", "read")
		r := record(t, g.PID, "--payload", victim.Path(t, lib))
		said := r.Stderr.String()
		if r.Code != 5 || !strings.Contains(said, step) || lineOf(said, "target") != "gone" {
			t.Errorf("exit code %d\n%s", r.Code, said)
		}
		return fmt.Sprintf("exit code %d, %q, cause %q", r.Code, lineOf(said, "rtl-attach: error:"), lineOf(said, "cause"))
	}
}

// stopsMost limits the longest stop of a thread: it must not last until the payload has finished.
// The tool may have waited for a CPU meanwhile.
func stopsMost(t *testing.T, rep *inject.Report, takes time.Duration) (longest time.Duration) {
	t.Helper()
	for _, p := range rep.Pauses {
		longest = max(longest, p.Stopped)
	}
	if longest >= takes {
		t.Errorf("a thread was stopped for %v", longest)
	}
	return longest
}

func constructorHangs(t *testing.T) string {
	held := filepath.Join(t.TempDir(), "held")
	if err := os.WriteFile(held, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(victim.Path(t, "busy"), "futex", "read", "malloc", "sleep")
	cmd.Env = []string{"RTL_HOLD=" + held}
	v := gpuRun(t, cmd, gpuEnv(t, cmd))
	r := record(t, v.PID, "--payload", victim.Path(t, "slow.so"))
	said := r.Stderr.String()
	if r.Code != 6 || !strings.Contains(lineOf(said, "cause"), `"load the payload" took longer than 10 s`) {
		t.Errorf("exit code %d\n%s", r.Code, said)
	}
	v.Unharmed(t)
	v.works(t)
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	v.leftLibraries(t, 1)
	timed := record(t, v.PID).ok(t)
	v.leftLibraries(t, 2)
	v.Unharmed(t)
	return fmt.Sprintf("exit code %d, %q; longest stop %s; then %d dispatches timed", r.Code, lineOf(said, "cause"),
		longestStop(t, said), timed)
}

// loadTimeout is the tool's timeout for dlopen of the payload.
const loadTimeout = 10 * time.Second

// longestStop returns the longest stop in the tool's output: it must be shorter than the tool's
// wait for the payload.
func longestStop(t *testing.T, said string) time.Duration {
	t.Helper()
	var longest time.Duration
	for line := range strings.Lines(said) {
		_, rest, found := strings.Cut(line, "stopped thread ")
		fields := strings.Fields(rest)
		if !found || len(fields) < 4 {
			continue
		}
		d, err := time.ParseDuration(fields[2] + fields[3])
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		longest = max(longest, d)
	}
	if longest == 0 || longest >= loadTimeout {
		t.Errorf("a thread was stopped for %v\n%s", longest, said)
	}
	return longest
}

// leftLibraries: loaded libraries are never unloaded; nothing else stays.
func (v *gpuVictim) leftLibraries(t *testing.T, n int) {
	t.Helper()
	v.left(t, func(now residue) bool { return now.payloads == n && now.threads == v.before.threads+now.controls })
}

func entryHangs(t *testing.T) string {
	v := onGPU(t, "busy", "futex", "read", "malloc", "sleep")
	before := v.Inventory(t)
	var rep *inject.Report
	var err error
	var late *inject.TimeoutError
	if !hang.Eventually(func() bool { // a starved injector finds the answer there
		rep, err = injected(t, v.Victim, inject.Request{
			Library: library(t, "payload.so"), Entry: "rtl_slow", EntryTimeout: 200 * time.Millisecond,
		})
		return err != nil
	}) || !errors.As(err, &late) {
		t.Fatalf("error %v, want a time-out", err)
	}
	longest := stopsMost(t, rep, 2*time.Second)
	if !hang.Eventually(func() bool { return len(v.Inventory(t).Ours) == 0 }) { // the entry returns after 2 s
		t.Error("the bootstrap does not leave")
	}
	v.Unharmed(t)
	v.AsBefore(t, before)
	return fmt.Sprintf("%v; longest stop %v", late, longest.Round(time.Microsecond))
}

func entryFails(t *testing.T) string {
	v := onGPU(t, "busy", "futex", "read", "malloc")
	r := record(t, v.PID, "--payload", victim.Path(t, "fail.so"))
	said := r.Stderr.String()
	if r.Code != 1 || !strings.Contains(lineOf(said, "cause"), unix.EBUSY.Error()) {
		t.Errorf("exit code %d, want 1 and %v\n%s", r.Code, unix.EBUSY, said)
	}
	v.leftLibraries(t, 1)
	timed := record(t, v.PID).ok(t)
	v.leftLibraries(t, 2)
	v.Unharmed(t)
	return fmt.Sprintf("exit code %d, %q; then %d dispatches timed", r.Code, lineOf(said, "cause"), timed)
}

func otherBuild(t *testing.T) string {
	v := onGPU(t, "busy", "futex", "read", "malloc")
	record(t, v.PID, "--payload", testenv.Artefact(t, "librtl-attach-test.so")).ok(t)
	r := record(t, v.PID)
	timed := r.ok(t)
	if said := r.Stderr.String(); !strings.Contains(said, "another build of the payload is resident") {
		t.Errorf("it does not say that another build is there\n%s", said)
	}
	v.sound(t)
	return fmt.Sprintf("%d dispatches timed by the resident build", timed)
}

// otherABI: a payload as a later version of the tool would leave it. It has no recorder, and
// detaches by itself.
func otherABI(t *testing.T) string {
	v := onGPU(t, "busy", "futex", "read", "malloc")
	lib, err := os.ReadFile(testenv.Artefact(t, "librtl-attach-next.so"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := envbuf.Encode([]envbuf.Var{{Name: "RTL_RECORDER_TIMEOUT_MS", Value: "500"}})
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := injected(t, v.Victim, inject.Request{Library: lib, Entry: "rtl_attach", Env: env}); err != nil || rep.EntryResult != 0 {
		t.Fatalf("inject: %v\n%+v", err, rep)
	}
	v.onlyDormant(t)
	var causes []string
	for _, args := range [][]string{{"-p", strconv.Itoa(v.PID), "-o", filepath.Join(t.TempDir(), "t.db")}, {"detach", strconv.Itoa(v.PID)}} {
		r := newRun(t, "rtl-attach", args...)
		r.Start(t)
		r.Exit(t)
		said := r.Stderr.String()
		if r.Code != 4 || !strings.Contains(said, "another version of rtl-attach left its payload there") ||
			!strings.Contains(lineOf(said, "fix"), "restart the process") {
			t.Errorf("%v: exit code %d\n%s", args, r.Code, said)
		}
		causes = append(causes, lineOf(said, "fix"))
	}
	v.sound(t)
	return fmt.Sprintf("exit code 4, fix %q", causes[0])
}

func twoLibraries(t *testing.T) string {
	v := victim.Start(t, "busy", "futex", "read", "malloc")
	before := v.Inventory(t)
	var results []int32
	for _, lib := range []string{"payload.so", "payload2.so"} {
		rep, err := injected(t, v, inject.Request{Library: library(t, lib), Entry: "rtl_attach"})
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, rep.EntryResult)
	}
	if results[0] != 1 || results[1] != 1001 {
		t.Errorf("the entries returned %v", results)
	}
	v.Unharmed(t)
	v.AsBefore(t, before)
	return fmt.Sprintf("their entries returned %v", results)
}
