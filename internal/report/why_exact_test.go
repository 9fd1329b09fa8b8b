package report

import (
	"errors"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// What is said of how exact the causes are depends on which of the GPU's times were observed with --sched.
func TestWhyExactness(t *testing.T) {
	const lostWaits = "INSERT INTO rocpd_string(string) VALUES('ring full: waits'); UPDATE rtl_cpu_loss SET cause_id = (SELECT id FROM rocpd_string WHERE string = 'ring full: waits')"
	for name, c := range map[string]struct{ change, want string }{
		"with":    {"SELECT 1", "Waits are exact; what ran"},
		"losses":  {lostWaits, "Waits are exact, except for lost ones; what ran"},
		"least":   {"UPDATE rtl_cpu_window SET least_wait_ns = 20000", "Waits of 20 µs and more are exact; shorter ones count as running; what ran"},
		"without": {"UPDATE rtl_cpu_window SET scheduling = 0; DELETE FROM rtl_cpu_wait", "Waits were not recorded (--sched): what threads did is by"},
		"both": {`INSERT INTO rtl_cpu_window(session_id, begun_ns, ended_ns, method_id, cpu_hz, wall_hz, scheduling, least_wait_ns)
			SELECT session_id, (begun_ns + ended_ns) / 2, ended_ns, method_id, cpu_hz, wall_hz, 0, 0 FROM rtl_cpu_window;
			UPDATE rtl_cpu_window SET ended_ns = (begun_ns + ended_ns) / 2 WHERE scheduling`, "Waits are exact where --sched was on; what else threads did"},
	} {
		t.Run(name, func(t *testing.T) {
			path := tracetest.WriteThreads(t)
			change(t, path, c.change)
			r, err := Make(path, Options{})
			must(t, err)
			g := &r.WhyIdle.GPUs[0]
			if text := g.exactness(r.WhyIdle.lostWaits()); !strings.HasPrefix(text, c.want) || g.errorOf() < 1 {
				t.Errorf("%s", text)
			}
		})
	}
}

// A session that claims more windows than a recorder writes is refused.
func TestTooManyWindows(t *testing.T) {
	path := tracetest.WriteThreads(t)
	change(t, path, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 64)
		INSERT INTO rtl_cpu_window(session_id, begun_ns, ended_ns, method_id, cpu_hz, wall_hz, scheduling, least_wait_ns)
		SELECT session_id, begun_ns + i, ended_ns, method_id, cpu_hz, wall_hz, 1, 0 FROM rtl_cpu_window, n`)
	if _, err := Make(path, Options{}); !errors.Is(err, traceread.ErrImpossible) {
		t.Errorf("%v", err)
	}
}
