package inject

import (
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// TestStagedElsewhere: a folder on a filesystem that need not answer is passed over,
// without a question.
func TestStagedElsewhere(t *testing.T) {
	v := victim.OnFUSE(t, "shm", "taken")
	rep := inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach", Env: env(9)})
	if !strings.HasPrefix(rep.StagedFile, "/tmp/") {
		t.Errorf("the payload was loaded from %q", rep.StagedFile)
	}
	if asked := v.Ask(t, "?"); asked != "asked 0" {
		t.Errorf("its server was %s times", asked)
	}
}

// TestStackOnFUSE: a thread whose stack may have to be waited for is not stopped.
func TestStackOnFUSE(t *testing.T) {
	v := victim.OnFUSE(t, "stack", "taken")
	rep := inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach", Env: env(9)})
	if rep.TID != v.PID {
		t.Errorf("thread %d was used, not the main one %d", rep.TID, v.PID)
	}
	if asked := v.Ask(t, "?"); asked != "asked 0" {
		t.Errorf("its server was %s times", asked)
	}
}
