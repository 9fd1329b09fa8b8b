package inject

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// failAt makes the injection fail at one point.
func failAt(t *testing.T, p Point, with error) {
	Fault = func(now Point) error {
		if now == p {
			return with
		}
		return nil
	}
	t.Cleanup(func() { Fault = nil })
}

func TestFaultAtEveryPoint(t *testing.T) {
	lib := payload(t, "payload.so")
	v := victim.Start(t, "busy")
	tr := tracer(t)
	before := v.Inventory(t)
	fault := errors.New("made to fail")
	for _, p := range Points {
		t.Run(string(p), func(t *testing.T) {
			failAt(t, p, fault)
			rep, err := Inject(context.Background(), open(t, v), tr, Request{
				Library: lib, Entry: "rtl_attach",
				IdleTimeout: 300 * time.Millisecond,
			})
			if !errors.Is(err, fault) {
				t.Fatalf("error %v, want the fault; %+v", err, rep)
			}
			var remains *RemainsError
			if errors.As(err, &remains) {
				t.Errorf("rollback: %v", remains)
			}
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
	Fault = nil
	inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach"})
	v.Unharmed(t)
	v.AsBefore(t, before)
}
