package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// An inventory is what a session can leave in a target.
type inventory struct {
	threads, fds int
	payloads     map[string]int // mappings of each payload, by inode
	controls     int            // control blocks mapped
	rings        int
	bootstrap    []string // pages of an injection under way, or of a dead tool's
}

func (s *subject) inventory(t testing.TB) inventory {
	t.Helper()
	inv := inventory{payloads: map[string]int{}, threads: s.count(t, "task"), fds: s.count(t, "fd")}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		inv.note(strings.Fields(line))
	}
	return inv
}

// note looks at one mapping: span, permissions, offset, device, inode, path.
func (inv *inventory) note(f []string) {
	path := strings.Join(f[5:], " ")
	switch {
	case victim.Bootstrap(f):
		inv.bootstrap = append(inv.bootstrap, strings.Join(f, " "))
	case strings.Contains(path, "rtl-payload"), strings.Contains(path, "librtl-attach"):
		inv.payloads[f[4]]++
	case strings.Contains(path, "rtl-control"):
		inv.controls++
	case strings.Contains(path, "rtl-ring"):
		inv.rings++
	}
}

func (s *subject) count(t testing.TB, dir string) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", s.pid, dir))
	if err != nil {
		t.Fatalf("the target is gone: %v", err)
	}
	return len(list)
}

// onlyDormant: all that a detached payload may leave is one mapping of it, its
// control block and one thread asleep. What ends by itself gets a moment for it.
func (s *subject) onlyDormant(t testing.TB, before inventory) {
	t.Helper()
	var now inventory
	if !hang.Eventually(func() bool {
		now = s.inventory(t)
		return now.threads == before.threads+1 && now.fds <= before.fds+1 && len(now.payloads) == 1 &&
			now.controls == 1 && now.rings == 0 && len(now.bootstrap) == 0
	}) {
		t.Errorf("left in the target: %+v\nit was: %+v", now, before)
	}
}
