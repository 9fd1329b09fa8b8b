package truth

import (
	"fmt"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestListener: a library in the target, loaded before the payload, is called before the tables are patched and after
// they are restored, and reads them. It may hang, or be gone, or come back.
func TestListener(t *testing.T) {
	sessions := testenv.Times(1, leastTransitions/4)
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

	often := func() { // from the first event on
		t.Helper()
		must(0)
		for range sessions {
			session("read")
		}
		must(2 * sessions)
	}

	often()
	ask("hold")
	session("read")
	must(2*sessions + 1) // it is in the first of these two calls
	ask("go")
	harness.Until(t, "a listener is called again", func() bool {
		runs = append(runs, p.RecordUntil(t, 100*time.Millisecond, 100))
		return ask("events") >= 2*sessions+3
	})
	if failed := ask("close"); failed != 0 {
		t.Errorf("it cannot be unloaded: %d", failed)
	}
	runs = append(runs, p.RecordUntil(t, 100*time.Millisecond, 1000))
	often() // loaded again, after the payload
	check(t, p, p.TIDs(), runs...)
	transitions(t, 4*sessions)
}
