package trigger

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Grammar shows each form of a condition.
const Grammar = "gap>50ms, busy<30% for 2s, kernel /RE/ > 3x p50, kernel /RE/ > 5ms, launch-latency p99 > 5ms, exit"

const (
	longestText  = 1024
	longestTime  = time.Hour // a limit or a period
	defaultBusy  = 2 * time.Second
	leastPeriod  = 100 * time.Millisecond
	mostMultiple = 1e6
)

// Parse reads a condition, such as "gap>50ms".
func Parse(text string) (Condition, error) {
	c := Condition{Text: strings.TrimSpace(text)}
	if len(text) > longestText {
		return c, fmt.Errorf("longer than %d bytes", longestText)
	}
	rest := c.Text
	name := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz-"))]
	rest = strings.TrimSpace(rest[len(name):])
	var err error
	switch name {
	case "gap":
		c.detect, err = parseGap(rest)
	case "busy":
		c.detect, err = parseBusy(rest)
	case "kernel":
		c.detect, err = parseKernel(rest)
	case "launch-latency":
		c.detect, err = parseLatency(rest)
	case "exit":
		if c.AtTargetsEnd = true; rest != "" {
			err = fmt.Errorf("%q behind exit", rest)
		}
	default:
		err = fmt.Errorf("no condition begins so: %s", Grammar)
	}
	return c, err
}

// after returns the rest behind a sign, such as > in "> 5ms".
func after(rest, sign, example string) (string, error) {
	behind, found := strings.CutPrefix(strings.TrimSpace(rest), sign)
	if !found {
		return "", fmt.Errorf("%s is needed here: %s", sign, example)
	}
	return strings.TrimSpace(behind), nil
}

// parseTime reads a time above 0, with its unit.
func parseTime(text string) (uint64, error) {
	text = strings.ReplaceAll(text, " ", "")
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time such as 50ms", text)
	case d <= 0 || d > longestTime:
		return 0, fmt.Errorf("%q: above 0, at most %v", text, longestTime)
	}
	return uint64(d), nil
}

func parseGap(rest string) (func(*Set) detector, error) {
	rest, err := after(rest, ">", "gap>50ms")
	if err != nil {
		return nil, err
	}
	limit, err := parseTime(rest)
	return func(s *Set) detector { return newGap(s, limit) }, err
}

func parseBusy(rest string) (func(*Set) detector, error) {
	rest, err := after(rest, "<", "busy<30% for 2s")
	if err != nil {
		return nil, err
	}
	share, period, timed := strings.Cut(rest, "for")
	number, isPercent := strings.CutSuffix(strings.TrimSpace(share), "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !isPercent || err != nil || !(percent > 0 && percent <= 100) {
		return nil, fmt.Errorf("%q is not a share such as 30%%", strings.TrimSpace(share))
	}
	forNS := uint64(defaultBusy)
	if timed {
		if forNS, err = parseTime(strings.TrimSpace(period)); err != nil {
			return nil, err
		}
		if forNS < uint64(leastPeriod) {
			return nil, fmt.Errorf("for %s: at least %v", strings.TrimSpace(period), leastPeriod)
		}
	}
	return func(s *Set) detector { return newBusy(s, percent/100, forNS) }, nil
}

func parseKernel(rest string) (func(*Set) detector, error) {
	const example = "kernel /RE/ > 3x p50"
	end := strings.LastIndex(rest, "/")
	if !strings.HasPrefix(rest, "/") || end <= 0 {
		return nil, errors.New("a regular expression between slashes is needed: " + example)
	}
	re, err := regexp.Compile(rest[1:end])
	if err != nil {
		return nil, err
	}
	rest, err = after(rest[end+1:], ">", example)
	if err != nil {
		return nil, err
	}
	multiple, of, relative := strings.Cut(rest, "x")
	if !relative {
		limit, err := parseTime(rest)
		return func(*Set) detector { return newSlowKernel(re, limit, 0, 0) }, err
	}
	factor, err := strconv.ParseFloat(strings.TrimSpace(multiple), 64)
	if err != nil || !(factor > 0 && factor <= mostMultiple) {
		return nil, fmt.Errorf("%q is not a number of times, such as 3x", strings.TrimSpace(multiple)+"x")
	}
	permille, err := parsePercentile(of)
	return func(*Set) detector { return newSlowKernel(re, 0, factor, permille) }, err
}

func parseLatency(rest string) (func(*Set) detector, error) {
	const example = "launch-latency p99 > 5ms"
	of, limit, found := strings.Cut(rest, ">")
	if !found {
		return nil, errors.New("> is needed here: " + example)
	}
	permille, err := parsePercentile(of)
	if err != nil {
		return nil, err
	}
	limitNS, err := parseTime(strings.TrimSpace(limit))
	return func(*Set) detector { return newLatency(permille, limitNS) }, err
}

// parsePercentile reads p50 or p99.9, and returns thousandths.
func parsePercentile(text string) (int64, error) {
	number, found := strings.CutPrefix(strings.TrimSpace(text), "p")
	percent, err := strconv.ParseFloat(number, 64)
	if !found || err != nil || !(percent >= 0.1 && percent <= 99.9) {
		return 0, fmt.Errorf("%q is not a percentile such as p99", strings.TrimSpace(text))
	}
	return int64(percent*10 + 0.5), nil
}
