package report

import (
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/whyidle"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// Where Python's functions have no names, a wait for its lock is known by where the lock is, and the answer is the same.
func TestGILByAddress(t *testing.T) {
	const (
		at       = " UPDATE rtl_cpu_wait SET argument0 = 0x7f0000001000 WHERE stack_id = (SELECT max(s.id) FROM rtl_cpu_stack s JOIN rtl_cpu_frame f ON f.id = frame_id JOIN rocpd_string n ON n.id = name_id WHERE string = 'take_gil');"
		stripped = " UPDATE rocpd_string SET string = 'f' WHERE string = 'take_gil';"
		lock     = " INSERT INTO rtl_cpu_lock(session_id, kind, address, bytes) SELECT id, 0, 0x7f0000001000 - 32, 208 FROM rtl_session;"
		before   = " INSERT INTO rtl_cpu_lock(session_id, kind, address, bytes) SELECT id, 0, 0x7f0000001000 - 208, 208 FROM rtl_session;"
		other    = " INSERT INTO rtl_cpu_lock(session_id, kind, address, bytes) SELECT id + 1, 0, 0x7f0000001000, 208 FROM rtl_session;"
		lies     = " INSERT INTO rtl_cpu_lock(session_id, kind, address, bytes) SELECT id, 0, -1, -1 FROM rtl_session;"
	)
	const want = "thread 2983 (engine) waited for the GIL in Scheduler.schedule (engine.py:48), until thread 2982 (tokenizer) released it"
	for name, c := range map[string]struct {
		change string
		is     bool
	}{
		"with names":                     {"SELECT 1", true},
		"a former version's, names":      {"DROP TABLE rtl_cpu_lock", true},
		"names and address":              {at + lock, true},
		"address":                        {at + stripped + lock, true},
		"address, no stack":              {"UPDATE rtl_cpu_wait SET syscall = 230 WHERE stack_id IS NULL;" + at + lock + " UPDATE rtl_cpu_wait SET stack_id = NULL WHERE argument0 IS NOT NULL", true},
		"neither":                        {at + stripped, false},
		"another futex":                  {at + stripped + before, false},
		"another process's lock":         {at + stripped + other, false},
		"not a futex":                    {at + stripped + lock + " UPDATE rtl_cpu_wait SET syscall = 0 WHERE argument0 IS NOT NULL", false},
		"preempted in the system call":   {at + stripped + lock + " UPDATE rtl_cpu_wait SET state = 0 WHERE argument0 IS NOT NULL", false},
		"a lock of an impossible length": {at + stripped + lies, false},
	} {
		path := tracetest.WriteThreads(t)
		change(t, path, c.change)
		r, err := Make(path, Options{})
		must(t, err)
		var got *IdleCause
		for i := range r.WhyIdle.GPUs[0].Causes {
			if one := &r.WhyIdle.GPUs[0].Causes[i]; one.WaitsFor == whyidle.ForGIL {
				got = one
			}
		}
		text := want
		if name == "address, no stack" {
			text = "thread 2983 (engine) waited for the GIL in code that is not known, until thread 2982 (tokenizer) released it"
		}
		if (got != nil) != c.is || c.is && (got.Times != 18 || !strings.HasPrefix(got.Text, text)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
