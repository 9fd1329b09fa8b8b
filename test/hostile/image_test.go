package hostile

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestImage: memory, names and files of the target are not what an attach looks
// for. None of these processes has a ROCm runtime behind its name: where nothing
// else stops the tool, its payload says so.
func TestImage(t *testing.T) {
	const noRuntime = "no libhsa-runtime64 is loaded"
	for _, c := range []struct {
		how   string
		codes []int
		says  string
	}{
		{"plain", []int{1}, noRuntime},
		{"maps 60000", []int{1, 6}, ""}, // on a busy machine steps take longer than they may
		{"loop", []int{1}, "more than 4096 libraries"},
		{"long 5000", []int{1}, "more than 4096 libraries"},
		{"long 4000", []int{4}, "libraries with names of glibc's libraries"},
		{"wild", []int{1, 4}, ""},
		{"threads 64", []int{1}, noRuntime},
		{"groups", []int{1}, ""}, // the kernel writes 700 kB for each look at a thread
		{"groups 2000", []int{1, 6}, ""},
		{"fifo", []int{1}, noRuntime},
		{"boot 0", []int{1, 3, 6}, ""},
		{"boot 1", []int{1, 3, 6}, ""},
		{"names", []int{1}, noRuntime},
		{"stall", []int{1}, "input/output error"},
	} {
		t.Run(c.how, func(t *testing.T) {
			v := victim.Start(t, "hostile_image", strings.Fields(c.how)...)
			r := attack(t, v.PID)
			r.end(t, c.codes...)
			if said := r.Stderr.String(); !strings.Contains(said, c.says) {
				t.Errorf("it does not say %q:\n%.2000s", c.says, said)
			}
			if names := list(t, r.out); len(names) != 0 {
				t.Errorf("left of a recording that never began: %v", names)
			}
		})
	}
}

// TestNumber: the target's number becomes another process's at some moment of
// the attach. The heir is not touched.
func TestNumber(t *testing.T) {
	for delay := 0; delay < 60; delay += 4 {
		cmd := exec.Command(victim.Path(t, "hostile_pid"))
		v := victim.Run(t, cmd)
		pid, err := strconv.Atoi(v.Line(t))
		if err != nil {
			t.Fatal(err)
		}
		v.Tell(t, fmt.Sprintf("%d\n", delay))
		r := attack(t, pid)
		r.end(t, 1, 3, 4, 5)
		v.Tell(t, "0\n")
		switch said := v.Line(t); {
		case said == "no such number":
			testenv.Skip(t, "the kernel gives no number of one's choice")
		case said != "threads 1 traced 0 maps 0":
			t.Errorf("killed after %d ms; the heir: %s", delay, said)
		}
		if r.HasSaid("attached  ") {
			t.Errorf("it claims to be attached:\n%s", r.Stderr.String())
		}
	}
}
