package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// otherProcess makes the tokenizer of a trace's engine a thread of another recorded process, 3000, in which it has the id 12.
const otherProcess = `
	INSERT INTO rtl_session(pid, start_ticks, command, host, tool_version, payload_build_id, generation, begun_ns, armed_ns, detached_ns, ended_ns, end_reason)
		SELECT 3000, 5, 'worker', host, tool_version, payload_build_id, 1, begun_ns, armed_ns, detached_ns, ended_ns, end_reason FROM rtl_session;
	INSERT INTO rtl_cpu_window(session_id, begun_ns, ended_ns, method_id, cpu_hz, wall_hz, scheduling, least_wait_ns)
		SELECT 2, begun_ns, ended_ns, method_id, cpu_hz, wall_hz, scheduling, least_wait_ns FROM rtl_cpu_window;
	UPDATE rtl_thread SET session_id = 2, tid = 12 WHERE tid = 2982;
	UPDATE rtl_cpu_wait SET session_id = 2 WHERE thread_id = (SELECT id FROM rtl_thread WHERE tid = 12);
	UPDATE rtl_cpu_sample SET session_id = 2 WHERE thread_id = (SELECT id FROM rtl_thread WHERE tid = 12);
	UPDATE rtl_cpu_wait SET waker_thread_id = NULL, waker_pid = 3000, waker_tid = 12 WHERE waker_thread_id IS NOT NULL;`

// Who woke a thread is also told of a thread of another recorded process, and what that one did, as of the process's own.
func TestWakerInAnotherProcess(t *testing.T) {
	const waited = "thread 2983 (engine) of pid 2981 waited in Condition.wait (threading.py:327), called from Engine.wait_for_tokens (engine.py:77), until "
	const known, unknown = "thread 12 (tokenizer) of pid 3000 woke it", "process 3000 (thread 12) woke it"
	for name, c := range map[string]struct{ change, want string }{
		"observed":                      {"", waited + known + ", which was running Tokenizer.detokenize (engine.py:61), in cwork (libcwork.so)"},
		"observed later":                {"UPDATE rtl_cpu_window SET begun_ns = ended_ns - 1 WHERE session_id = 2", waited + unknown},
		"without waits":                 {"UPDATE rtl_cpu_window SET scheduling = 0 WHERE session_id = 2", waited + unknown},
		"another thread":                {"UPDATE rtl_thread SET tid = 13 WHERE tid = 12", waited + unknown},
		"another process":               {"UPDATE rtl_session SET pid = 3001 WHERE pid = 3000", waited + unknown},
		"the pid was another process's": {"UPDATE rtl_cpu_window SET ended_ns = begun_ns + 1 WHERE session_id = 2", waited + unknown},
	} {
		path := tracetest.WriteThreads(t)
		change(t, path, otherProcess+c.change)
		r, err := Make(path, Options{})
		must(t, err)
		got := r.WhyIdle.GPUs[0].Causes
		if !slices.ContainsFunc(got, func(one IdleCause) bool { return one.Text == c.want }) {
			t.Errorf("%s: want %s", name, c.want)
			for _, one := range got {
				t.Log(one.Text)
			}
		}
	}
}

// Of a process that was observed from the middle of a wait on, only what it did then counts.
func TestWakerObservedLater(t *testing.T) {
	path := tracetest.WriteThreadSteps(t, 2)
	change(t, path, otherProcess+"UPDATE rtl_cpu_window SET begun_ns = begun_ns + 5500000 WHERE session_id = 2")
	r, err := Make(path, Options{})
	must(t, err)
	for _, c := range r.WhyIdle.GPUs[0].Causes {
		if strings.Contains(c.Text, "Condition.wait") {
			if w := c.Waker; w == nil || w.TID != 12 || w.PID != 3000 || w.State != "" {
				t.Errorf("%s: %+v", c.Text, w)
			}
			return
		}
	}
	t.Error("no wait for the other process")
}

// A waker that was at several lines of one function is said to be in it.
func TestWakerAtSeveralLines(t *testing.T) {
	path := tracetest.WriteThreads(t)
	change(t, path, `INSERT INTO rtl_cpu_frame(session_id, kind, name_id, file_id, line) SELECT session_id, kind, name_id, file_id, line + n
			FROM rtl_cpu_frame f, (SELECT 1 AS n UNION SELECT 2) WHERE line = 61;
		INSERT INTO rtl_cpu_stack(session_id, frame_id, cut) SELECT session_id, id, 0 FROM rtl_cpu_frame WHERE line IN (61, 62, 63);
		UPDATE rtl_cpu_sample SET stack_id = (SELECT max(s.id) FROM rtl_cpu_stack s JOIN rtl_cpu_frame f ON f.id = frame_id WHERE line = 61 + time_ns / 10000000 % 3)
			WHERE time_ns % 10000000 < 5000000`)
	r, err := Make(path, Options{})
	must(t, err)
	const want = "woke it, which was running Tokenizer.detokenize (engine.py)"
	if !slices.ContainsFunc(r.WhyIdle.GPUs[0].Causes, func(c IdleCause) bool { return strings.HasSuffix(c.Text, want) }) {
		for _, c := range r.WhyIdle.GPUs[0].Causes {
			t.Error(c.Text)
		}
	}
}
