package victim

import (
	"os/exec"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// OnFUSE starts hostile_mount, whose filesystem lies where how says and answers no
// more: its server takes requests ("taken"), or does not even do that ("deaf"). The
// test is skipped where there can be no such filesystem.
func OnFUSE(t testing.TB, how, manner string) *Victim {
	t.Helper()
	if err := exec.Command(Path(t, "hostile_mount"), "none", manner).Run(); err != nil {
		testenv.Skip(t, "this machine has no FUSE, or this user may not mount")
	}
	return Start(t, "hostile_mount", how, manner)
}
