package session

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestJudgeUnread: a thread that cannot be read is not said to be gone.
func TestJudgeUnread(t *testing.T) {
	tg, err := target.Open(victim.Start(t, "plain").PID)
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	w := &stackChecker{target: tg}
	if v := w.judge(os.Getpid(), nil); v != ring.VerdictGone {
		t.Errorf("another process's thread: verdict %d", v)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 3 // those are in use; poll(2) wants a few
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	v := w.judge(tg.PID, nil)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if v != ring.VerdictUnknown {
		t.Errorf("a thread whose files could not be opened: verdict %d", v)
	}
}
