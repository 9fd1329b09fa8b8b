package inject

import (
	"errors"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// TestForesee: what is foreseen is what an injection finds, and nobody is
// stopped for it unless filters shall be read.
func TestForesee(t *testing.T) {
	for _, tc := range []struct {
		name    string
		args    []string
		letter  string
		read    bool
		filters bool
		err     error
	}{
		{name: "busy", args: []string{"spin", "futex"}},
		{name: "odd", args: []string{"clone=refuse"}, letter: "s", filters: true},
		{name: "odd", args: []string{"clone=refuse"}, letter: "s", filters: true, read: true, err: target.ErrSeccomp},
		{name: "odd", args: []string{"reboot=kill"}, letter: "s", filters: true, read: true},
	} {
		v := victim.Start(t, tc.name, tc.args...)
		if tc.letter != "" {
			if answer := v.Ask(t, tc.letter); answer != "0" {
				t.Skip("no seccomp filter can be installed")
			}
		}
		o, err := Foresee(open(t, v), tracer(t), tc.read)
		if !errors.Is(err, tc.err) {
			t.Errorf("%v: %v", tc, err)
		}
		if o == nil || o.Threads == 0 || (o.Filters != 0) != tc.filters || o.Read != tc.read {
			t.Errorf("%v: %+v", tc, o)
		}
	}
}
