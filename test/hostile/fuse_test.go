package hostile

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestFUSE: a filesystem of the target's own making lies where the tool looks, and
// answers no more. A request that its server has not taken is given up when the
// tool ends; one that it has taken holds a thread of the tool's until the server
// ends, against SIGKILL even. In both cases the tool says so in time, leaves the
// target alone, and holds none of its threads meanwhile. Where the kind of a file
// is all that matters, the server is not asked.
func TestFUSE(t *testing.T) {
	for _, c := range []struct {
		how   string
		codes []int
		says  string
		asked bool
	}{
		{"proc", []int{4}, "no /proc in its root", false},
		{"stack", []int{1}, "no libhsa-runtime64 is loaded", false},
		{"page", []int{1}, "a page has not come", true},
		{"root", []int{1}, "a filesystem in its root has not answered", true},
		{"reads", []int{6}, "did not map memory", true}, // what is held by the target itself, as below
		{"maps", []int{1}, "a page has not come", true},
	} {
		for _, manner := range []string{"deaf", "taken"} {
			t.Run(c.how+" "+manner, func(t *testing.T) {
				t.Parallel() // they wait for most of the time
				runs := map[string]*fuseRun{}
				for _, verb := range []string{"attach", "doctor", "ps"} {
					runs[verb] = lookAtFUSE(t, verb, c.how, manner)
				}
				for verb, r := range runs {
					asked := r.letGo(t)
					if manner == "taken" && asked > 0 && !c.asked {
						t.Errorf("%s: its filesystem was asked %d times", verb, asked)
					}
				}
				runs["attach"].tool.end(t, c.codes...)
				if said := runs["attach"].tool.Stderr.String(); !strings.Contains(said, c.says) {
					t.Errorf("it does not say %q:\n%s", c.says, said)
				}
				runs["doctor"].tool.end(t, append(c.codes, 0, 1)...)
				runs["ps"].tool.end(t, 0)
			})
		}
	}
}

// A fuseRun is one run of the tool against one such target.
type fuseRun struct {
	victim *victim.Victim
	tool   *run
}

func lookAtFUSE(t *testing.T, verb, how, manner string) *fuseRun {
	t.Helper()
	v := victim.OnFUSE(t, how, manner)
	switch verb {
	case "attach":
		return &fuseRun{v, attack(t, v.PID)}
	case "doctor":
		return &fuseRun{v, tool(t, verb, strconv.Itoa(v.PID))}
	}
	return &fuseRun{v, tool(t, verb)}
}

// letGo waits until the tool has ended but for threads that the kernel keeps, looks
// at the target, and ends its filesystem. It returns how often that was asked.
func (r *fuseRun) letGo(t *testing.T) (asked int) {
	t.Helper()
	if !hang.Eventually(func() bool { return !alive(r.tool.Cmd.Process.Pid) }) {
		t.Fatalf("%v goes on; its threads: %s", r.tool.Cmd.Args, states(r.tool.Cmd.Process.Pid))
	}
	for _, s := range statuses(r.victim.PID) {
		if s["TracerPid"] != "0" || strings.HasPrefix(s["State"], "t") || strings.HasPrefix(s["State"], "T") {
			t.Errorf("%v has left a thread stopped: %v, traced by %v", r.tool.Cmd.Args, s["State"], s["TracerPid"])
		}
	}
	if _, err := fmt.Sscanf(r.victim.Ask(t, "?"), "asked %d", &asked); err != nil {
		t.Error(err)
	}
	r.victim.Tell(t, "e")
	return asked
}

// states are those of a process's threads, with where they wait.
func states(pid int) string {
	var all []string
	for _, s := range statuses(pid) {
		where, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/wchan", pid, s["Pid"]))
		all = append(all, s["State"]+" in "+string(where))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
