package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
)

const gdbTimeout = 2 * time.Minute

// gdb loads the same payload with gdb, as a user would by hand. It returns the total
// stopped time of the thread with the longest.
func gdb(m *pausemeter.Meter, build string) (time.Duration, error) {
	s, err := startServer(m, build)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	library, err := filepath.Abs(filepath.Join(build, "payload", "librtl-attach.so"))
	if err != nil {
		return 0, err
	}
	const now = 2 // RTLD_NOW
	ctx, cancel := context.WithTimeout(context.Background(), gdbTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "gdb", "-nx", "-batch", "-p", strconv.Itoa(s.pid),
		"-ex", fmt.Sprintf(`print ((void *(*)(const char *, int)) dlopen)("%s", %d)`, library, now)).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("gdb: %w\n%s", err, out)
	}
	if loaded, err := s.maps(library); err != nil || !loaded {
		return 0, fmt.Errorf("gdb did not load %s (%w):\n%s", library, err, out)
	}
	stops, err := m.Take()
	if err != nil {
		return 0, err
	}
	byThread := map[uint32]time.Duration{}
	for _, stop := range stops {
		byThread[stop.TID] += stop.Duration
	}
	var all []time.Duration
	for _, d := range byThread {
		all = append(all, d)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("gdb stopped no thread")
	}
	return slices.Max(all), nil
}
