package main

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
)

var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"K", 1 << 10},
	{"M", 1 << 20},
	{"G", 1 << 30},
	{"T", 1 << 40},
	{"B", 1},
}

// parseSize reads sizes such as 64MiB.
func parseSize(s string) (uint64, error) {
	number, unit := strings.TrimSpace(s), uint64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no size such as 64MiB", s)
	}
	if over, total := bits.Mul64(n, unit); over == 0 {
		return total, nil
	}
	return 0, fmt.Errorf("%q is too large", s)
}

func parsePercent(s string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "%"), 10, 64)
	if err != nil || n < 1 || n > 100 {
		return 0, fmt.Errorf("%q is no percentage from 1%% to 100%%", s)
	}
	return n, nil
}

func parseSettings(settings []string) ([]envbuf.Var, error) {
	var vars []envbuf.Var
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--set %q: NAME=VALUE is needed", s)
		}
		vars = append(vars, envbuf.Var{Name: name, Value: value})
	}
	var fault *envbuf.Fault
	if _, err := envbuf.Resolve(vars); errors.As(err, &fault) {
		return nil, fmt.Errorf("--set %s", fault.What)
	}
	return vars, nil
}

func parsePID(s string) (int, error) {
	pid, err := strconv.Atoi(s)
	if err != nil || pid <= 0 {
		return 0, usageError{fmt.Errorf("%q is no pid", s)}
	}
	return pid, nil
}
