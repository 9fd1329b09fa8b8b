package cli

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

const ordinaryUser = 12345

// setFileCapabilities gives a file permitted and effective capabilities, as setcap(8) does (capabilities(7), "File
// capability extended attribute").
func setFileCapabilities(t *testing.T, path string, capabilities ...int) {
	t.Helper()
	const version2, effective = 0x02000000, 1
	var permitted uint64
	for _, c := range capabilities {
		permitted |= 1 << c
	}
	value := make([]byte, 20)
	binary.LittleEndian.PutUint32(value, version2|effective)
	binary.LittleEndian.PutUint32(value[4:], uint32(permitted))
	binary.LittleEndian.PutUint32(value[12:], uint32(permitted>>32))
	if err := unix.Setxattr(path, "security.capability", value, 0); err != nil {
		testenv.Skip(t, "no file capabilities here: "+err.Error())
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil || fs.Flags&unix.ST_NOSUID != 0 {
		testenv.Skip(t, "the folder for temporary files is mounted nosuid, which ignores file capabilities")
	}
	if privs, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || privs != 0 {
		testenv.Skip(t, "no_new_privs is set, which ignores file capabilities")
	}
}

// asOrdinary makes a command run as an ordinary user.
func asOrdinary(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser, Groups: []uint32{}}}
	return cmd
}

// copyOfTool returns a copy of the tool in a folder of its own, which the ordinary user can enter.
func copyOfTool(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rtl-filecaps-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tool, err := os.ReadFile(testenv.Artefact(t, "rtl-attach"))
	copied := filepath.Join(dir, "rtl-attach")
	if err = errors.Join(err, os.WriteFile(copied, tool, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "out"), 0o700),
		os.Chown(filepath.Join(dir, "out"), ordinaryUser, ordinaryUser)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// recordAsOrdinary records s by the copy of the tool until the target has done some work.
func recordAsOrdinary(t *testing.T, s *subject, copied string) *run {
	t.Helper()
	trace := filepath.Join(filepath.Dir(copied), "out", "t.db")
	cmd := asOrdinary(exec.Command(copied, "-p", strconv.Itoa(s.pid), "-d", hang.Limit.String(), "-o", trace, "--force"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	r := &run{harness.Wrap(cmd)}
	r.Trace = trace
	r.Start(t)
	return r
}

// TestFileCapabilities: an ordinary user records by a copy of the tool that has capabilities from its file: a process of
// its own by CAP_SYS_PTRACE, also another user's with CAP_DAC_OVERRIDE. Without, the other user's process is refused.
func TestFileCapabilities(t *testing.T) {
	testenv.NeedRoot(t)
	for name, c := range map[string]struct {
		capabilities []int
		own          bool
		code         failure.ExitCode
	}{
		"own process":     {[]int{unix.CAP_SYS_PTRACE}, true, failure.OK},
		"another user's":  {[]int{unix.CAP_SYS_PTRACE, unix.CAP_DAC_OVERRIDE}, false, failure.OK},
		"no capabilities": {nil, false, failure.NotPermitted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			copied := copyOfTool(t)
			if c.capabilities != nil {
				setFileCapabilities(t, copied, c.capabilities...)
			}
			target := onGPU(t, "workloads/serve", "--threads", "3", "--streams", "4", "--rate", "50", "--kernels", "16")
			if c.own {
				if asOrdinary(exec.Command("test", "-x", target.Path)).Run() != nil {
					testenv.Skip(t, "an ordinary user cannot enter the folder of the built files")
				}
				asOrdinary(target)
			}
			s := start(t, target)
			progresses(t, s)
			before := s.inventory(t)
			r := recordAsOrdinary(t, s, copied)
			if c.code == failure.OK {
				r.Says(t, "attached  ")
				recorded(t, s)
				r.Interrupt(t)
			}
			r.MustExit(t, int(c.code))
			if c.code != failure.OK {
				if !strings.Contains(r.Stderr.String(), "not touched") {
					t.Errorf("it says:\n%s", r.Stderr.String())
				}
				s.unharmed(t)
				return
			}
			if n := r.ReadSummary(t).Coverage.Timed; n < 50 {
				t.Errorf("%d kernels timed\n%s", n, r.Stderr.String())
			}
			s.onlyDormant(t, before)
			s.unharmed(t)
		})
	}
}
