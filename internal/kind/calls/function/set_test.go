package function

import (
	"slices"
	"testing"
)

// inDigits reads the digits as payload/src/kinds/calls/operations.c does.
func inDigits(t *testing.T, digits string) Set {
	t.Helper()
	s := make(Set, len(Table()))
	for i := range digits {
		value := slices.Index([]byte("0123456789abcdef"), digits[i])
		if value < 0 {
			t.Fatalf("%q at %d is no digit", digits[i], i)
		}
		for bit := range 4 {
			if value>>bit&1 == 1 {
				s[4*i+bit] = true
			}
		}
	}
	return s
}

func TestDigits(t *testing.T) {
	none := make(Set, len(Table()))
	if got := none.Digits(); got != "0" {
		t.Errorf("no function: %q", got)
	}
	for i := range none {
		one := slices.Clone(none)
		one[i] = true
		if got := one.Digits(); len(got) != i/4+1 || !slices.Equal(inDigits(t, got), one) {
			t.Errorf("function %d: %q", i, got)
		}
	}
	all := NewSet(func(f *Function) bool { return f.When != Never })
	if !slices.Equal(inDigits(t, all.Digits()), all) {
		t.Errorf("all functions: %q", all.Digits())
	}
}

func TestMatching(t *testing.T) {
	for pattern, want := range map[string][]string{
		"hipMalloc":     {"hipMalloc"},
		"hipmalloc":     nil,
		"hipMallocA*":   {"hipMallocArray", "hipMallocAsync"},
		"hipStreamWai?": nil,
		"ncclAllR*":     {"ncclAllReduce", "ncclAllReduceWithBias"},
		"":              nil,
	} {
		s, err := Matching(pattern)
		var names []string
		for i, in := range s {
			if in {
				names = append(names, Table()[i].Name)
			}
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%q: %v, %v, want %v", pattern, names, err, want)
		}
	}
	if _, err := Matching("hip["); err == nil {
		t.Error("hip[ is a pattern")
	}
}
