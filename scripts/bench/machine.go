package main

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// machine describes the machine and the settings on which the figures depend.
type machine struct {
	CPUs       int      `json:"cpus"`
	Model      string   `json:"model"`
	Kernel     string   `json:"kernel"`
	LoadBefore string   `json:"load_before"`
	LoadAfter  string   `json:"load_after"`
	Simulator  []string `json:"simulator"` // the simulator's settings; none: the defaults
}

func describeMachine() machine {
	kernel, _, _ := strings.Cut(firstWords("/proc/sys/kernel/osrelease", 1), "-") // without the distribution's suffix
	m := machine{CPUs: runtime.NumCPU(), Model: cpuModel(), Kernel: kernel, LoadBefore: loadAverage()}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "SOFTGPU_") {
			m.Simulator = append(m.Simulator, v)
		}
	}
	slices.Sort(m.Simulator)
	return m
}

func loadAverage() string { return firstWords("/proc/loadavg", 3) }

func firstWords(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(string(b))
	return strings.Join(words[:min(n, len(words))], " ")
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if name, model, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown"
}

func (m machine) simulatorText() string {
	if len(m.Simulator) == 0 {
		return "the defaults"
	}
	return strings.Join(m.Simulator, " ")
}
