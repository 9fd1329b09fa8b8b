package main

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
)

func of(name string, places ...function.Place) *function.Facts {
	f := function.Function{Name: name}
	for _, p := range places {
		f.Parameters = append(f.Parameters, function.Parameter{Place: p})
	}
	return &function.Facts{Functions: []function.Function{f}}
}

func TestMergeRefusesOtherPlaces(t *testing.T) {
	r0, s0 := function.Place{In: function.Registers, Words: 1}, function.Place{In: function.Stack, Words: 1}
	all := of("hipA", r0)
	for _, newer := range []*function.Facts{of("hipA", r0), of("hipB", s0)} {
		if err := merge(all, newer); err != nil {
			t.Error(err)
		}
	}
	if len(all.Functions) != 2 {
		t.Errorf("%d functions", len(all.Functions))
	}
	for _, newer := range []*function.Facts{of("hipA", s0), of("hipA", r0, s0)} {
		if merge(all, newer) == nil {
			t.Errorf("%v is accepted", newer.Functions[0].Parameters)
		}
	}
}

func TestMergeEnum(t *testing.T) {
	merged := mergeEnum("e", function.Enum{0: "zero", 1: "moved", 7: "seven"}, function.Enum{0: "zero", 2: "moved"})
	if len(merged) != 3 || merged[0] != "zero" || merged[2] != "moved" || merged[7] != "seven" {
		t.Error(merged)
	}
}

// The examples of the psABI's rules that the headers have, and those that they may get.
func TestPlaces(t *testing.T) {
	integer := function.Type{Class: function.Signed, Size: 4}
	two := function.Type{Class: function.Structure, Size: 12}
	large := function.Type{Class: function.Structure, Size: 24}
	single := function.Type{Class: function.Floating, Size: 4}
	next := places{registers: 5}
	for i, c := range []struct {
		of   function.Type
		want string
	}{{two, "s0+2"}, {single, "x0"}, {integer, "r5"}, {integer, "s2"}, {large, "s3+3"}} {
		if got, err := next.take(c.of); err != nil || got.String() != c.want {
			t.Errorf("%d: %v, want %s (%v)", i, got, c.want, err)
		}
	}
}
