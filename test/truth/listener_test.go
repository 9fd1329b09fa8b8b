package truth

import (
	"fmt"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// TestListener: a library in the target, loaded before the payload, is called before the tables are patched and after
// they are restored, and reads them. It may hang, or be gone, or come back.
func TestListener(t *testing.T) {
	p := harness.Start(t, harness.Stress(4, 2, 64, "--pace", "300"))
	ask := func(command string) (n int) {
		t.Helper()
		text, err := p.Get("/listener/" + command)
		if err == nil {
			_, err = fmt.Sscan(text, &n)
		}
		if err != nil {
			t.Fatalf("listener: %s: %v\n%s", command, err, p.Output())
		}
		return n
	}
	must := func(events int) {
		t.Helper()
		if n := ask("events"); n != events {
			t.Errorf("%d events, expected %d", n, events)
		}
	}
	var runs []harness.Run
	session := func(command string) {
		t.Helper()
		r := p.Begin(t)
		p.Active(t)
		ask(command)
		harness.Until(t, "it dispatches", p.Dispatches(t, 1000))
		r.Interrupt(t)
		runs = append(runs, r.MustRecord(t))
	}

	must(0)
	session("read")
	must(2)
	ask("hold")
	session("read")
	must(3) // it is in the first of these two calls
	ask("go")
	harness.Until(t, "a listener is called again", func() bool {
		runs = append(runs, p.RecordUntil(t, 100*time.Millisecond, 100))
		return ask("events") >= 5
	})
	if failed := ask("close"); failed != 0 {
		t.Errorf("it cannot be unloaded: %d", failed)
	}
	runs = append(runs, p.RecordUntil(t, 100*time.Millisecond, 1000))
	must(0) // loaded again
	session("read")
	must(2)
	check(t, p, p.TIDs(), runs...)
}
