package stuck

import (
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
)

// readable demangles a function's name. The name is hostile input: the length is limited.
func readable(name string) string {
	const longest = 10 // log2 of the bytes of a name
	if text := demangle.Filter(name, demangle.NoParams, demangle.NoTemplateParams, demangle.NoClones, demangle.MaxLength(longest)); text != "" {
		return text
	}
	return name
}

// kernelsOf returns the collectives' kernels that a process runs or is about to run.
func kernelsOf(p *Process, patterns *collectives.Patterns) (names []string) {
	for _, q := range p.Queues {
		for _, packet := range q.Running {
			names = append(names, patterns.Find(packet.Kernel))
		}
		if q.Packet != nil && !q.Moved {
			names = append(names, patterns.Find(q.Packet.Kernel))
		}
	}
	for _, t := range p.Threads {
		if (strings.HasPrefix(t.Within, "nccl") || strings.HasPrefix(t.Within, "rccl")) && t.Same {
			names = append(names, t.Within)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// insideOf tells which processes are inside which collective operation, and which are not.
func insideOf(processes []*Process, patterns *collectives.Patterns) []Collective {
	inside := map[string][]int{}
	var order []string
	for _, p := range processes {
		for _, name := range kernelsOf(p, patterns) {
			if inside[name] == nil {
				order = append(order, name)
			}
			inside[name] = append(inside[name], p.PID)
		}
	}
	slices.Sort(order)
	found := []Collective{}
	for _, name := range order {
		c := Collective{Name: name, Inside: inside[name], Outside: []int{}}
		for _, p := range processes {
			if p.Hidden == "" && !slices.Contains(c.Inside, p.PID) {
				c.Outside = append(c.Outside, p.PID)
			}
		}
		found = append(found, c)
	}
	return found
}
