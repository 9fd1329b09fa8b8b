package launch

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// names reads a list of tools as the runtime does (see appendTool).
func names(list string) (found []string) {
	var name strings.Builder
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == ' ' && !quoted, c == '"' && quoted:
			found, quoted = append(found, name.String()), false
			name.Reset()
		case c == '"':
			quoted = true
		case c == '\\' && i+1 < len(list):
			i++
			name.WriteByte(list[i])
		default:
			name.WriteByte(c)
		}
	}
	if name.Len() > 0 {
		found = append(found, name.String())
	}
	return found
}

// TestAppendTool: the runtime finds the payload, and the user's own tools as before.
func TestAppendTool(t *testing.T) {
	for _, list := range []string{
		"", " ", "a.so", "a.so b.so", "a.so ", `"a b.so"`, `"a b.so" c.so`, `a\ b.so`, `"a`, `a.so "b`, `\"a.so`,
	} {
		both := names(appendTool(list, "OURS"))
		if i := slices.Index(both, "OURS"); i < 0 {
			t.Errorf("%q: the payload is not in %q", list, both)
		} else if theirs := slices.Delete(both, i, i+1); !slices.Equal(theirs, names(strings.TrimRight(list, " "))) {
			t.Errorf("%q: the user's tools are %q, they were %q", list, theirs, names(list))
		}
	}
}

// TestEnvironment: HSA_TOOLS_ROCPROFILER_V1_TOOLS changes nothing for tools of the user's own.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		own  []string
		want string // of HSA_TOOLS_ROCPROFILER_V1_TOOLS
	}{
		{nil, "1"},
		{[]string{olderTools + "=0"}, "0"},
		{[]string{toolsVariable + "=a.so"}, ""},
	} {
		got := ""
		for _, v := range environment(c.own, "OURS", "address") {
			if value, is := strings.CutPrefix(v, olderTools+"="); is {
				got = value
			}
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.own, got, c.want)
		}
	}
}

// TestWhyIgnored: what in the user's environment has the runtime ignore the payload is named.
func TestWhyIgnored(t *testing.T) {
	for _, c := range []struct{ own, want string }{
		{"", ""},
		{olderTools + "=0", olderTools + "=0"},
		{olderTools + "=False " + toolsVariable + "=a.so", olderTools + "=False"},
		{toolsVariable + "=a.so", toolsVariable},
		{toolsVariable + "=a.so " + olderTools + "=1", ""},
		{toolsVariable + "=a.so " + olderTools + "=", ""}, // set is on
		{toolsVariable + "=", ""},
	} {
		if got := WhyIgnored(strings.Fields(c.own)); got != c.want {
			t.Errorf("%q: %q", c.own, got)
		}
	}
}

// TestShareMemory: a child inherits the library's descriptor, and cannot change the library.
func TestShareMemory(t *testing.T) {
	fd, err := shareMemory([]byte("the library"))
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "library")
	defer f.Close()
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it can be changed")
	}
}
