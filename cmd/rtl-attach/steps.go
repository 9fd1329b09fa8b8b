package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/steps"
)

// parseSteps parses --steps: N, the last N steps, or A:B, the steps from A up to B; A or B may be empty. "" is nil.
func parseSteps(text string) (*steps.Selection, error) {
	if text == "" {
		return nil, nil
	}
	from, until, isRange := strings.Cut(text, ":")
	if !isRange {
		last, err := stepNumber(from)
		return &steps.Selection{Last: last}, err
	}
	s := &steps.Selection{}
	for _, side := range []struct {
		text string
		into *int64
	}{{from, &s.From}, {until, &s.Until}} {
		if side.text == "" {
			continue
		}
		n, err := stepNumber(side.text)
		if err != nil {
			return nil, err
		}
		*side.into = n
	}
	if s.Until > 0 && s.Until <= max(s.From, 1) {
		return nil, fmt.Errorf("--steps %q ends before it begins", text)
	}
	return s, nil
}

func stepNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("--steps: %q is not a number of steps, such as 5 or 40:43", text)
	}
	return n, nil
}
