package traceread

import "testing"

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in      string
		longest int
		want    string
	}{{"kernel", 6, "kernel"}, {"kernel", 5, "kerne…"}, {"größe", 3, "gr…"}, {"\x80\x80", 1, "…"}, {"", 0, ""}} {
		if got := Cut(c.in, c.longest); got != c.want {
			t.Errorf("%q cut to %d: %q, want %q", c.in, c.longest, got, c.want)
		}
	}
}
