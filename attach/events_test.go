package attach_test

import (
	"context"
	"testing"

	"github.com/rtl-attach/rtl-attach/attach"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// TestEvents: all events of a trace in the order of starts, of two kinds; a reader may stop early; what cannot be read is an error.
func TestEvents(t *testing.T) {
	const n = 2000
	path := tracetest.WriteWithCalls(t, n)
	count, last := map[string]int{}, int64(0)
	for e, err := range attach.Events(context.Background(), path) {
		if err != nil {
			t.Fatal(err)
		}
		if e.StartNS < last || e.EndNS < e.StartNS || e.Name == "" || e.PID == 0 || (e.GPU < 0) != (e.Kind != attach.Kernel) {
			t.Fatalf("%+v after one at %d", e, last)
		}
		last = e.StartNS
		count[e.Kind]++
	}
	if count[attach.Kernel] != n || count["hip-runtime"] != n || len(count) != 2 {
		t.Errorf("%v", count)
	}
	seen := 0
	for range attach.Events(context.Background(), path) {
		if seen++; seen == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for what, events := range map[string]func(func(attach.Event, error) bool){
		"no trace":    attach.Result{}.Events(context.Background()),
		"no file":     attach.Events(context.Background(), path+".gone"),
		"interrupted": attach.Events(ctx, path),
	} {
		var errors []error
		for _, err := range events {
			errors = append(errors, err)
		}
		if len(errors) != 1 || errors[0] == nil {
			t.Errorf("%s: %v", what, errors)
		}
	}
}
