package inject

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/victim"
)

func TestFaultAtEveryPoint(t *testing.T) {
	v := victim.Start(t, "busy")
	before := v.Inventory(t)
	for _, p := range Points {
		t.Run(string(p), func(t *testing.T) { failOnce(t, v, before, p, true) })
	}
	Fault = nil
	inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// TestFaultWhereHeld: a fault at the entry of the last call does not stop the injection,
// because an entered call cannot be cancelled.
func TestFaultWhereHeld(t *testing.T) {
	v := victim.Start(t, "busy", "-o", "poll", "sleep", "poll", "sleep")
	before := v.Inventory(t)
	undone := []Point{PointSeized, PointMasked, PointEntry, PointExit, PointMasked2}
	for _, p := range slices.Concat(undone, HeldPoints[2:]) {
		t.Run(string(p), func(t *testing.T) { failOnce(t, v, before, p, slices.Contains(undone, p)) })
	}
}

// failOnce makes an injection fail at a point, and checks that it reached the point.
func failOnce(t *testing.T, v *victim.Victim, before victim.Inventory, p Point, fails bool) {
	t.Helper()
	fault, passed := errors.New("made to fail"), false
	Fault = func(now Point) error {
		if now != p || passed {
			return nil
		}
		passed = true
		return fault
	}
	defer func() { Fault = nil }()
	var rep *Report
	var err error
	for tries := 0; !passed && tries < 20; tries++ { // a starved injector may be given up by its bootstrap before
		rep, err = Inject(context.Background(), open(t, v), tracer(t), Request{
			Library: payload(t, "payload.so"), Entry: "rtl_attach",
			IdleTimeout: 300 * time.Millisecond,
		})
	}
	if !passed || fails != errors.Is(err, fault) || !fails && err != nil {
		t.Fatalf("passed: %v, error %v, want the fault: %v; %+v", passed, err, fails, rep)
	}
	var remains *RemainsError
	if errors.As(err, &remains) {
		t.Errorf("rollback: %v", remains)
	}
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// TestUndoFails: if an injection cannot unmap its memory, the next injection does.
func TestUndoFails(t *testing.T) {
	v := victim.Start(t, "busy")
	before, tr := v.Inventory(t), tracer(t)
	for _, p := range UndoPoints {
		fault := errors.New("made to fail")
		Fault = func(now Point) error {
			if now == PointMapped || now == p {
				return fault
			}
			return nil
		}
		_, err := Inject(context.Background(), open(t, v), tr, Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
		Fault = nil
		var remains *RemainsError
		if !errors.Is(err, fault) || !errors.As(err, &remains) {
			t.Errorf("%s: error %v, want what remains", p, err)
		}
		v.Unharmed(t)
		if rep := inject(t, v, tr, Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"}); rep.Reclaimed != 1 {
			t.Errorf("%s: freed %d mappings, want 1", p, rep.Reclaimed)
		}
		v.Unharmed(t)
		v.AsBefore(t, before)
	}
}
