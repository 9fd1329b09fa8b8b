package main

import (
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
		ok   bool
	}{
		{"64MiB", 64 << 20, true},
		{"2GiB", 2 << 30, true},
		{"1 kB", 1000, true},
		{"512K", 512 << 10, true},
		{"0", 0, true},
		{"17", 17, true},
		{"", 0, false},
		{"MiB", 0, false},
		{"-1", 0, false},
		{"1.5GiB", 0, false},
		{"99999999999TiB", 0, false},
	} {
		got, err := parseSize(c.text)
		if (err == nil) != c.ok || got != c.want {
			t.Errorf("parseSize(%q) = %d, %v; want %d, ok %v", c.text, got, err, c.want, c.ok)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
		ok   bool
	}{{"75%", 75, true}, {"1", 1, true}, {"100%", 100, true}, {"0%", 0, false}, {"101%", 0, false}, {"x", 0, false}} {
		got, err := parsePercent(c.text)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("parsePercent(%q) = %d, %v; want %d, ok %v", c.text, got, err, c.want, c.ok)
		}
	}
}

func TestParseSettings(t *testing.T) {
	vars, err := parseSettings([]string{"RTL_STAMP=tsc", "RTL_HSA_LIBRARY=/a=b"})
	if err != nil || len(vars) != 2 || vars[1].Value != "/a=b" {
		t.Errorf("%v, %v", vars, err)
	}
	if _, err := parseSettings([]string{"RTL_STAMP"}); err == nil {
		t.Error("a setting without a value was accepted")
	}
}

// TestPIDs: a pid is decimal, also with leading zeros.
func TestPIDs(t *testing.T) {
	for text, want := range map[string]string{"0100": "100", "7, 8,7": "7,8", "0x10": "", "0": "", "-3": "", "1,": "", "1_0": ""} {
		var l pidList
		if err := l.Set(text); err == nil != (want != "") || err == nil && l.String() != want {
			t.Errorf("%q: %s, %v; want %s", text, l.String(), err, want)
		}
	}
}

// TestParseDuration: a number without a unit is in seconds.
func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond,
		"0": 0, "-1": -time.Second,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "5x", ".", "-", "1e9", "99999999999999", "1:2"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q was taken as %v", text, got)
		}
	}
}

// TestRoundUp: a buffer's size is a power of two, and at least the size asked for.
func TestRoundUp(t *testing.T) {
	for n, want := range map[uint64]string{
		64 << 10: "64KiB", 64<<10 + 1: "128KiB", 100e6: "128MiB", 64 << 20: "64MiB", 16 << 30: "16GiB", 15 << 30: "16GiB", 1: "1B",
	} {
		if got := powerText(roundUp(n)); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
