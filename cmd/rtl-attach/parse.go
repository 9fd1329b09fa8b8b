package main

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

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

// roundUp returns the smallest power of two that is at least n, for n up to 2^63.
func roundUp(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len64(n-1)
}

// powerText formats a power of two as a flag takes it: 64MiB.
func powerText(n uint64) string {
	for _, u := range []string{"GiB", "MiB", "KiB"} {
		if size, _ := parseSize("1" + u); n >= size {
			return strconv.FormatUint(n/size, 10) + u
		}
	}
	return strconv.FormatUint(n, 10) + "B"
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
		return 0, fmt.Errorf("%q is not a size such as 64MiB", s)
	}
	if over, total := bits.Mul64(n, unit); over == 0 {
		return total, nil
	}
	return 0, fmt.Errorf("%q is too large", s)
}

// parseDuration reads 1m30s, 500ms, or a plain number of seconds.
func parseDuration(s string) (time.Duration, error) {
	number := s
	if strings.Trim(s, "-.0123456789") == "" {
		number += "s"
	}
	d, err := time.ParseDuration(number)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 5s", s)
	}
	return d, nil
}

// durationFlag is the value of a duration flag, as parseDuration reads it.
type durationFlag time.Duration

// Set implements pflag.Value.
func (d *durationFlag) Set(text string) error {
	parsed, err := parseDuration(text)
	*d = durationFlag(parsed)
	return err
}

// String implements pflag.Value; it returns "" for zero, so that help shows no default.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value.
func (d *durationFlag) Type() string { return "duration" }

func parsePercent(s string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "%"), 10, 64)
	if err != nil || n < 1 || n > 100 {
		return 0, fmt.Errorf("%q is not a percentage from 1%% to 100%%", s)
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

// warnOfSettings warns of each setting that the payload does not know.
func warnOfSettings(to warner, vars []envbuf.Var) {
	var known []string
	for _, k := range envbuf.Keys {
		known = append(known, k.Name)
	}
	for _, v := range vars {
		if !slices.Contains(known, v.Name) {
			to.Warn("--set " + v.Name + ": the payload has no setting of this name" + orMeant(nearest(v.Name, known)))
		}
	}
}

func parsePID(s string) (int, error) {
	pid, err := strconv.Atoi(s)
	if err != nil || pid <= 0 {
		return 0, usageError{fmt.Errorf("%q is not a pid", s)}
	}
	return pid, nil
}
