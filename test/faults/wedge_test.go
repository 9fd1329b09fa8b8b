package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

const entryPoint = "calling its entry point instead"

// A control thread does not answer: detach and reattach call the exported entry points by ptrace.
func TestWedgedControl(t *testing.T) {
	t.Parallel() // they wait for most of the time
	wedge := []string{"--payload", harness.TestPayload(t), "--set", "RTL_TEST_WEDGE_CONTROL=1"}
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "200"))
	slots := p.Slots(t)
	var runs []harness.Run
	for range 3 {
		run := p.RecordUntil(t, time.Second, 1000, wedge...)
		if !strings.Contains(run.Stderr, entryPoint) {
			t.Errorf("it was not done through the entry point:\n%s", run.Stderr)
		}
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("slots changed: %v", changed)
		}
		if st := p.Status(t); st.State != "dormant" || st.Inventory.HooksPatched != 0 {
			t.Errorf("state %s, %d hooks", st.State, st.Inventory.HooksPatched)
		}
		p.StillAlive(t)
		runs = append(runs, run)
	}
	harness.Check(t, p, p.TIDs(), runs...).MustHaveRecorded(1000)
}

// The entry point has begun a session, and the tool fails before it gets the result: it must end
// the session, because no other tool would.
func TestWedgedControlFails(t *testing.T) {
	library, err := os.ReadFile(harness.TestPayload(t))
	if err != nil {
		t.Fatal(err)
	}
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "200"))
	slots := p.Slots(t)
	p.RecordUntil(t, time.Second, 1000, "--payload", harness.TestPayload(t), "--set", "RTL_TEST_WEDGE_CONTROL=1")
	failure := errors.New("fails here")
	inject.Fault = func(at inject.Point) error {
		if at != inject.PointCalled {
			return nil
		}
		inject.Fault = nil
		return failure
	}
	t.Cleanup(func() { inject.Fault = nil })
	o := session.Options{
		Request: preflight.Request{PID: p.PID, Output: filepath.Join(t.TempDir(), "trace.db"), Library: library},
		Extra:   []envbuf.Var{{Name: "RTL_TEST_WEDGE_CONTROL", Value: "1"}, {Name: "RTL_RECORDER_TIMEOUT_MS", Value: "600000"}},
	}
	if _, err := session.Record(t.Context(), o, nil, observer{t}); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	if st := p.Status(t); st.State != "dormant" || st.Inventory.HooksPatched != 0 {
		t.Errorf("state %s, %d hooks", st.State, st.Inventory.HooksPatched)
	}
	if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
		t.Errorf("slots changed: %v", changed)
	}
	p.StillAlive(t)
	harness.Check(t, p, nil)
}

// observer writes warnings and errors to a test's log.
type observer struct{ t *testing.T }

func (observer) Preflight(string)                                                   {}
func (observer) Attached(string, int, time.Duration)                                {}
func (observer) Recording(time.Duration, time.Duration, collector.Progress, uint64) {}
func (observer) Triggered(string)                                                   {}
func (observer) Detaching(string, bool)                                             {}
func (observer) Detached(string)                                                    {}
func (o observer) Warn(text string)                                                 { o.t.Log(text) }

func (o observer) Debug(text string) { o.t.Log(text) }

// The recorder dies, and no thread of the target notices it: detach from outside.
func TestWedgedControlDetach(t *testing.T) {
	t.Parallel() // they wait for most of the time
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "200"))
	slots := p.Slots(t)
	r := p.Begin(t, "--payload", harness.TestPayload(t), "--set", "RTL_TEST_WEDGE_CONTROL=1", "--set", "RTL_RECORDER_TIMEOUT_MS=600000")
	p.Active(t)
	r.Kill()
	run := harness.Tool(t, "detach", strconv.Itoa(p.PID))
	run.MustBe(t, failure.OK)
	if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
		t.Errorf("slots changed: %v", changed)
	}
	if st := p.Status(t); st.State != "dormant" {
		t.Errorf("state %s", st.State)
	}
	p.StillAlive(t)
	harness.Check(t, p, nil)
}

// The recorder dies: the payload notices by itself.
func TestRecorderDies(t *testing.T) {
	t.Parallel() // they wait for most of the time
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "200"))
	slots := p.Slots(t)
	r := p.Begin(t, "--set", "RTL_RECORDER_TIMEOUT_MS=1000")
	p.Active(t)
	r.Kill()
	harness.Until(t, "the payload has detached by itself", func() bool { return p.Status(t).State == "dormant" })
	if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
		t.Errorf("slots changed: %v", changed)
	}
	run := p.RecordUntil(t, time.Second, 1000)
	p.StillAlive(t)
	harness.Check(t, p, p.TIDs(), run).MustHaveRecorded(500)
}
