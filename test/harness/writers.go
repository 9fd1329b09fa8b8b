package harness

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Code returns the executable mappings of the files whose paths satisfy is.
func (p *Process) Code(t testing.TB, is func(path string) bool) (code []target.Map) {
	t.Helper()
	proc, err := target.Open(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	maps, err := proc.Maps()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if len(m.Perms) == 4 && m.Perms[2] == 'x' && is(m.Path) {
			code = append(code, m)
		}
	}
	return code
}

// WritersIn returns the instructions in code that have written into rings. The simulator looks for them in the mode
// no-locks.
func (c *Comparison) WritersIn(code []target.Map) (in []uint64) {
	for _, at := range c.log.Writers {
		if _, found := target.FindMap(code, target.Addr(at)); found {
			in = append(in, at)
		}
	}
	return in
}
