package main

import (
	"reflect"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/report"
)

func TestParseWindow(t *testing.T) {
	for text, want := range map[string]*report.Span{
		"":          nil,
		":":         {},
		"1s:2.5s":   {FromNS: 1e9, UntilNS: 25e8},
		"1.5ms:":    {FromNS: 15e5},
		":500ms":    {UntilNS: 5e8},
		"0:1s":      {UntilNS: 1e9},
		"1:2.5":     {FromNS: 1e9, UntilNS: 25e8},
		"1h:1h1us":  {FromNS: 3600e9, UntilNS: 3600e9 + 1000},
		"1s:1s1ns":  {FromNS: 1e9, UntilNS: 1e9 + 1},
		"10us:20us": {FromNS: 10_000, UntilNS: 20_000},
	} {
		if got, err := parseWindow(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"1s", "a:b", "1:2x", "2s:1s", "1s:1s", "-1s:2s", "1s:-2s", "1s:2s:3s", ":0s"} {
		if got, err := parseWindow(text); err == nil {
			t.Errorf("%q is the window %+v", text, got)
		}
	}
}
