package register

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestReal: Debian's own librocprofiler-register.so, in the root of the release that has it (make runtimes). Only
// rocprofiler-sdk is a double: no Debian release has it.
func TestReal(t *testing.T) {
	testenv.NeedRoot(t)
	const library = "/usr/lib/x86_64-linux-gnu/librocprofiler-register.so.0"
	root := filepath.Join(testenv.BuildDir(), "roots/experimental")
	if _, err := os.Stat(root + library); err != nil {
		testenv.Skip(t, "no librocprofiler-register-0 of Debian experimental (run: make runtimes)")
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/libtool.so", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	victims := filepath.Dir(victim.Path(t, "registered"))
	start := func(prepare string) *victim.Victim {
		return victim.Run(t, exec.Command("../../scripts/in-root", root, victims+"=/mnt", dir+"=/srv", "--",
			"/usr/bin/env", "ROCP_TOOL_ATTACH="+prepare, "LD_LIBRARY_PATH=/mnt/rocp", "/mnt/registered", library))
	}
	v := start("1")
	before := v.Inventory(t)
	for range 2 {
		s, err := Attach(context.Background(), v.PID, options("/srv/libtool.so", "/srv/log"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Detach(); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(calls(t, dir+"/log"), " "); got != "attach detach attach detach" {
		t.Errorf("calls: %s", got)
	}
	isAlive(t, v)
	v.AsBefore(t, before)
	plain := start("0")
	if _, err := Attach(context.Background(), plain.PID, options("/srv/libtool.so", "/srv/log")); err == nil || !strings.Contains(err.Error(), ErrNotPrepared.Error()) {
		t.Errorf("not prepared: %v", err)
	}
	isAlive(t, plain)
}
