package harness

import (
	"os"
	"strings"
	"testing"
)

// LlamaLike is the workload that decodes tokens as llama.cpp does, and logs its steps.
func LlamaLike(args ...string) Workload {
	return Workload{Program: "llamalike", Args: args, LogsCalls: true}
}

// LoggedStep is a step in the workload's log.
type LoggedStep struct {
	Kind           string
	Kernels        int64
	BeginNS, EndNS int64
	First          int64 // the number of its first kernel
}

// StepsLog reads the log of an ended workload: the steps in their order, the numbers of whose kernels have no gaps.
func (p *Process) StepsLog(t testing.TB) (all []LoggedStep) {
	t.Helper()
	b, err := os.ReadFile(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	next := int64(1)
	for line := range strings.Lines(string(b)) {
		var s LoggedStep
		if err := scanLine(line, &s.Kind, &s.Kernels, &s.BeginNS, &s.EndNS, &s.First); err != nil || s.First != next {
			t.Fatalf("%q: %v, kernel %d follows", line, err, next)
		}
		next += s.Kernels
		all = append(all, s)
	}
	return all
}
