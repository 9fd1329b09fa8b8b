package main

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/steps"
)

func TestParseSteps(t *testing.T) {
	for text, want := range map[string]*steps.Selection{
		"": nil, "5": {Last: 5}, "40:43": {From: 40, Until: 43}, ":3": {Until: 3}, "7:": {From: 7}, ":": {},
	} {
		if got, err := parseSteps(text); err != nil || (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "0", "-1", "5:2", "3:3", ":1", "1:x", "1:2:3"} {
		if got, err := parseSteps(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
