package discover

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	list := []Process{{PID: 7, Command: "python3"}, {PID: 8, Command: "sh"}, {PID: 9, Command: "sh"}}
	if got, want := Names(list), "python3 (pid 7), sh ×2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for pid := range 100 {
		list = append(list, Process{PID: pid, Command: strings.Repeat("x", pid+1)})
	}
	if got := Names(list); !strings.HasSuffix(got, ", and 94 names more") {
		t.Errorf("%q", got)
	}
}
