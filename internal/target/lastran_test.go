package target

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseLastRan(t *testing.T) {
	const rule = "\n-------------------------------------------------------------------\n"
	for text, want := range map[string]time.Duration{
		"head (16412, #threads: 1)" + rule + "se.exec_start                                :      60884103.768197\n": 60884103768197 * time.Nanosecond,
		"\nse.exec_start: (1, #threads: 1)" + rule + "se.exec_start : 5.000001\n":                                    5*time.Millisecond + 1,
		"a (1, #threads: 1)" + rule + "se.exec_start : 0.000000\n":                                                   0,
		"a (1, #threads: 1)" + rule + "se.exec_start : 99999999999999999.000000\n":                                   0,
		"a (1, #threads: 1)" + rule + "se.exec_start : 7.5\n":                                                        0,
		"a (1, #threads: 1)" + rule + "se.vruntime : 7.500000\n":                                                     0,
		"": 0,
	} {
		got, err := parseLastRan([]byte(text))
		if got != want || (want == 0) != errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// The clock of a CPU does not go faster than time does, and a thread's affinity is as before.
func TestCPUClock(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	began := time.Now()
	first, err1 := clockOn(cpu)
	second, err2 := clockOn(cpu)
	passed := time.Since(began)
	if err1 != nil || err2 != nil || second < first || second-first > passed {
		t.Errorf("%s, %v, then %s, %v within %s", first, err1, second, err2, passed)
	}
	if err := unix.SchedGetaffinity(0, &after); err != nil || before != after {
		t.Errorf("affinity %v, then %v: %v", before, after, err)
	}
	if _, err := CPUClock(1<<10 - 1); err == nil && !before.IsSet(1<<10-1) {
		t.Error("a clock of no CPU")
	}
}
