package inject

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// ofStartedPrograms has calls that only programs make which the tool has started: there is no attach
// before which a filter could be asked (docs/guide/run.md).
const ofStartedPrograms = "session/launch.c"

// TestNeeds: needs lists every system call that the payload and the bootstrap make by
// number.
func TestNeeds(t *testing.T) {
	var known []string
	for _, n := range needs {
		name, _, _ := strings.Cut(n.name, " ")
		known = append(known, name)
	}
	found := 0
	for _, pattern := range []string{"../../payload/src/*/*.[ch]", "../../payload/src/*/*/*.[ch]", "boot/*.[chS]"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if strings.HasSuffix(file, ofStartedPrograms) {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`\bSYS_(\w+)`).FindAllStringSubmatch(string(text), -1) {
				if found++; !slices.Contains(known, m[1]) {
					t.Errorf("%s calls %s, which no filter is asked about", file, m[1])
				}
			}
		}
	}
	if found < 40 {
		t.Errorf("%d calls found in the sources", found)
	}
}

// TestNeedsInGuide: the guide's two lists equal the table.
func TestNeedsInGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(text), "A seccomp profile for the target must allow these calls")
	if !ok {
		t.Fatal("the guide's page has no list of the needed calls")
	}
	list, _, _ = strings.Cut(list, "###")
	must, may, ok := strings.Cut(list, "It may refuse these")
	if !ok {
		t.Fatal("the guide's page has no list of the calls that may be refused")
	}
	for _, n := range needs {
		in := must
		if n.mayRefuse {
			in = may
		}
		if name, _, _ := strings.Cut(n.name, " "); !strings.Contains(in, "`"+name+"`") {
			t.Errorf("%s is missing, or in the other list", name)
		}
	}
}

// TestJudgeFilters: judgeFilters refuses a filter that kills for any needed call, and
// accepts a refusal of the calls that may be refused.
func TestJudgeFilters(t *testing.T) {
	filter := func(nr uint64, action uint32) []ptrace.Program {
		return []ptrace.Program{{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(nr)},
			{Code: unix.BPF_RET | unix.BPF_K, K: action},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}}
	}
	const kill, refuse = unix.SECCOMP_RET_KILL_PROCESS & 0xffffffff, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	for _, n := range needs {
		if err := judgeFilters(1, 1, filter(n.nr, kill)); !errors.Is(err, target.ErrSeccomp) {
			t.Errorf("%s kills: %v", n.name, err)
		}
		if err := judgeFilters(1, 1, filter(n.nr, refuse)); (err == nil) != n.mayRefuse {
			t.Errorf("%s is refused: %v", n.name, err)
		}
	}
	if err := judgeFilters(1, 1, filter(unix.SYS_REBOOT, kill)); err != nil {
		t.Error(err)
	}
}
