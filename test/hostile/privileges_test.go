package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// needed are the capabilities that the tool keeps, as docs/security.md lists them.
const needed = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7 | 1<<19 | 1<<21 | 1<<23 | 1<<24 | 1<<38 | 1<<39 | 1<<40

// TestPrivileges: while records are collected no thread of the tool has an
// effective capability, and what it never needs it has given up for good.
func TestPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
	const looks = 50
	for _, user := range []string{"", "1234"} {
		t.Run("sudo "+user, func(t *testing.T) {
			v := victim.Start(t, "hostile", "honest")
			t.Setenv("SUDO_UID", user)
			r := attack(t, v.PID, "-d", hang.Limit.String())
			want := "0\t65534\t0\t65534"
			if user != "" {
				want = "0\t1234\t0\t1234"
			}
			lowered := 0
			for deadline := time.Now().Add(hang.Limit); lowered < looks && time.Now().Before(deadline) && alive(r.Cmd.Process.Pid); {
				low := true
				for _, s := range statuses(r.Cmd.Process.Pid) {
					permitted, err := strconv.ParseUint(s["CapPrm"], 16, 64)
					low = low && s["CapEff"] == "0000000000000000" && s["Uid"] == want
					if lowered > 0 && (err != nil || permitted&^needed != 0 || s["NoNewPrivs"] != "1") {
						t.Fatalf("a thread has too much: %v", s)
					}
				}
				if !low && lowered > 0 {
					t.Fatalf("a thread has privileges again: %v", statuses(r.Cmd.Process.Pid))
				}
				if low {
					lowered++
				}
				time.Sleep(20 * time.Millisecond)
			}
			_ = r.Cmd.Process.Signal(os.Interrupt) // or it has ended: its code says how
			r.end(t, 0)
			if lowered < looks {
				t.Errorf("without effective capabilities in all threads at %d looks only", lowered)
			}
		})
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// statuses reads the fields of every thread.
func statuses(pid int) (threads []map[string]string) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(value)
		}
		threads = append(threads, fields)
	}
	return threads
}
