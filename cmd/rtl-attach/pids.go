package main

import (
	"fmt"
	"slices"
	"strings"
)

// A pidList is a flag's value: pids with commas between them, added to those of
// the same flag before it.
type pidList []int

func (l *pidList) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		pid, err := parsePID(strings.TrimSpace(one))
		if err != nil {
			return err
		}
		if !slices.Contains(*l, pid) {
			*l = append(*l, pid)
		}
	}
	return nil
}

func (l *pidList) String() string {
	if len(*l) == 0 {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*l)), " ", ","), "[]")
}

func (l *pidList) Type() string { return "pids" }

// first is the one that stands for all; 0: there is none.
func (l *pidList) first() int {
	if len(*l) == 0 {
		return 0
	}
	return (*l)[0]
}
