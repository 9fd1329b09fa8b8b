package status_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/status"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestInspectTraced: a tracer, as another rtl-attach is for a moment, or a stop does not hide the status.
func TestInspectTraced(t *testing.T) {
	v := victim.Start(t, "plain")
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	if err := tracer.Do(func() error { _, err := ptrace.Seize(v.PID); return err }); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(v.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if st, err := status.Inspect(v.PID, "test"); err != nil || st.Resident || st.Command != "plain" {
		t.Errorf("%+v, %v", st, err)
	}
	if err := unix.Kill(v.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
