package faults

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/victim"
)

// program is a program that creates its threads in an unusual way. The injection, which creates a
// thread, is the part to test.
type program struct {
	name    string
	args    []string
	preload string                         // a library before all others; "": none
	check   func(*testing.T, *stateReport) // of the injections; nil: none
}

// attached injects many times into a process without a GPU, which has no threads of the runtime,
// and attaches twice to each of several processes with a GPU.
func (p program) attached(t *testing.T) string {
	t.Helper()
	v := victim.Run(t, p.preloaded(p.command(t)))
	p.loaded(t, v.PID)
	before := v.Inventory(t)
	r := injections(t, v, repeat(10, 200))
	if p.check != nil {
		p.check(t, r)
	}
	p.unharmed(t, r)
	v.AsBefore(t, before)
	v.Stop()
	return fmt.Sprintf("%v; %v", r, p.recorded(t, repeat(2, 20)))
}

func (p program) recorded(t *testing.T, victims int) (a attaches) {
	t.Helper()
	for range victims {
		cmd := p.command(t)
		count := gpuEnv(t, cmd)
		v := gpuRun(t, p.preloaded(cmd), count)
		p.loaded(t, v.PID)
		for range 2 {
			a.record(t, v.PID)
		}
		if p.name == "busy" {
			v.sound(t)
		} else {
			v.well(t)
		}
		v.Stop()
	}
	if a.injections != victims {
		t.Errorf("%v: %d victims are %d injections", a, victims, victims)
	}
	return a
}

func (p program) command(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(victim.Path(t, p.name), p.args...)
	cmd.Env = []string{"ASAN_OPTIONS=detect_leaks=0"}
	return cmd
}

// preloaded puts the library first in cmd's LD_PRELOAD.
func (p program) preloaded(cmd *exec.Cmd) *exec.Cmd {
	if p.preload == "" {
		return cmd
	}
	all := p.preload
	for _, v := range cmd.Env {
		if rest, ok := strings.CutPrefix(v, "LD_PRELOAD="); ok {
			all += ":" + rest
		}
	}
	cmd.Env = append(cmd.Env, "LD_PRELOAD="+all) // the last one counts
	return cmd
}

func (p program) loaded(t *testing.T, pid int) {
	t.Helper()
	if mapping(pid, p.preload) == "" {
		t.Fatalf("%s is not loaded: nothing is tested", p.preload)
	}
}

// unharmed checks the victim, by its kind.
func (p program) unharmed(t *testing.T, r *stateReport) {
	t.Helper()
	if p.name == "busy" {
		r.health = r.v.Unharmed(t)
		return
	}
	untraced(t, r.v.PID)
	said := r.v.Ask(t, "?")
	if !strings.HasSuffix(said, "harm 0") {
		t.Errorf("the victim was harmed: %s", said)
	}
	r.health.Beats = roundsOf(t, said)
}
