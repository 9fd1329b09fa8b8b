package main

import (
	"fmt"
	"slices"
	"strings"
)

// pidList is the value of a flag that takes pids with commas between them. Each use
// of the flag adds to the list.
type pidList []int

// Set implements pflag.Value.
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

// String implements pflag.Value.
func (l *pidList) String() string {
	if len(*l) == 0 {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*l)), " ", ","), "[]")
}

// Type implements pflag.Value.
func (l *pidList) Type() string { return "pids" }

// first returns the pid that error messages name; 0: the list is empty.
func (l *pidList) first() int {
	if len(*l) == 0 {
		return 0
	}
	return (*l)[0]
}
