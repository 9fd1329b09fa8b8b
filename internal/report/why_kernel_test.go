package report

import (
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// What ran in the kernel is said of a cause, and is a stack of its own.
func TestKernelTime(t *testing.T) {
	const running = "thread 2983 (engine) was running Scheduler.schedule (engine.py:48)"
	for name, c := range map[string]struct {
		change, want string
		user, kernel bool // stacks
		share        float64
	}{
		"none":              {"SELECT 1", running, true, false, 0},
		"a third":           {"UPDATE rtl_cpu_sample SET state = 1 WHERE time_ns % 10000000 = 6500000", running + ", 33% of it in the kernel", true, true, 1. / 3},
		"all":               {"UPDATE rtl_cpu_sample SET state = 1", running + ", in the kernel", false, true, 1},
		"less than a tenth": {"UPDATE rtl_cpu_sample SET state = 1 WHERE time_ns = 1006500000", running, true, true, 1. / 57},
		"without waits":     {"UPDATE rtl_cpu_window SET scheduling = 0; DELETE FROM rtl_cpu_wait; UPDATE rtl_cpu_sample SET state = 1 WHERE time_ns % 10000000 = 6500000", running + ", 33% of it in the kernel", true, true, 1. / 3},
	} {
		path := tracetest.WriteThreads(t)
		change(t, path, c.change)
		r, err := Make(path, Options{})
		must(t, err)
		found := false
		for _, one := range r.WhyIdle.GPUs[0].Causes {
			if one.State == IdleRunning && strings.HasPrefix(one.Text, running) {
				found = true
				if got := float64(one.KernelNS) / float64(one.NS); one.Text != c.want || got < c.share-.01 || got > c.share+.01 {
					t.Errorf("%s: %s: %.3f in the kernel", name, one.Text, got)
				}
			}
		}
		if !found {
			t.Errorf("%s: it did not run", name)
		}
		tr, err := traceread.Open(t.Context(), path)
		must(t, err)
		idle, err := IdleStacks(tr, traceread.Span{EndNS: traceread.LatestNS})
		must(t, err)
		tr.Close()
		labels := map[string]int64{}
		for i := range idle.Stacks {
			labels[idle.Stacks[i].Label()] += idle.Stacks[i].NS
		}
		if labels["running"] > 0 != c.user || labels["running: kernel"] > 0 != c.kernel {
			t.Errorf("%s: %v", name, labels)
		}
	}
}
