package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

// refused attaches to a process to which the tool cannot attach: the tool must end with this
// code, and its error must have cause, fix and state with these words. It returns the cause.
func refused(t *testing.T, pid int, code failure.ExitCode, words ...string) string {
	t.Helper()
	said := record(t, pid).refusal(t, code, words...)
	untraced(t, pid)
	return said
}

func (r *run) refusal(t *testing.T, code failure.ExitCode, words ...string) string {
	t.Helper()
	text := r.Stderr.String()
	if r.Code != int(code) {
		t.Errorf("exit code %d, want %d\n%s", r.Code, code, text)
	}
	_, text, _ = strings.Cut(text, "rtl-attach: error: ")
	said := explained(text)
	for _, part := range []string{"cause", "fix", "target"} {
		if said[part] == "" {
			t.Errorf("the error names no %s:\n%s", part, text)
		}
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("the error does not say %q:\n%s", word, text)
		}
	}
	if _, err := os.Stat(r.Trace); err == nil {
		t.Error("a refusal leaves a trace file")
	}
	return fmt.Sprintf("exit %d: %s", r.Code, said["cause"])
}

// explained returns the lines of an error by their first word.
func explained(text string) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "  ")
		said[name] = strings.TrimSpace(value)
	}
	return said
}

// untraced checks that no thread of the process is traced or in a ptrace stop.
func untraced(t *testing.T, pid int) {
	t.Helper()
	for _, tid := range threadsOf(pid) {
		status := statusOf(pid, tid)
		if tracer := status["TracerPid"]; tracer != "" && tracer != "0" {
			t.Errorf("thread %s is traced by %s", tid, tracer)
		}
		if strings.HasPrefix(status["State"], "t") {
			t.Errorf("thread %s is in a ptrace stop", tid)
		}
	}
}

func threadsOf(pid int) (tids []string) {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, e := range entries {
		tids = append(tids, e.Name())
	}
	return tids
}

// statusOf reads the fields of one thread; none if it has ended.
func statusOf(pid int, tid string) map[string]string {
	fields := map[string]string{}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, tid))
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// states counts the threads of a process by the letter of their state.
func states(pid int) map[string]int {
	count := map[string]int{}
	for _, tid := range threadsOf(pid) {
		if state := statusOf(pid, tid)["State"]; state != "" {
			count[state[:1]]++
		}
	}
	return count
}

// all waits until every thread is in this state.
func all(t *testing.T, pid int, state string) {
	t.Helper()
	if !hang.Eventually(func() bool { n := states(pid); return len(n) == 1 && n[state] > 0 }) {
		t.Fatalf("its threads are not all in state %s: %v", state, states(pid))
	}
}

// well checks that a victim that answers letters is unharmed, and has nothing of the tool but a
// dormant payload. It returns the answer.
func (v *gpuVictim) well(t *testing.T) string {
	t.Helper()
	said := v.unharmed(t)
	v.onlyDormant(t)
	return said
}

// unharmed checks that the victim answers, works, and is not stopped or traced.
func (v *gpuVictim) unharmed(t *testing.T) string {
	t.Helper()
	said := v.Ask(t, "?")
	if strings.Contains(said, "harm") && !strings.HasSuffix(said, "harm 0") {
		t.Errorf("the victim was harmed: %s", said)
	}
	untraced(t, v.PID)
	v.works(t)
	return said
}

// untouched checks the same, and that the victim has nothing of the tool.
func (v *gpuVictim) untouched(t *testing.T) {
	t.Helper()
	v.well(t)
	v.asFound(t)
}
