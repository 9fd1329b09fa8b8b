package harness

import "fmt"

// Reporter receives the findings of a comparison: the test that compares, or the test that a
// comparison can fail.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// faults has the errors that a comparison has found, by kind.
type faults struct {
	t Reporter
	n map[string]int
}

// wrong reports the first few of a kind and counts them all.
func (f *faults) wrong(kind, format string, args ...any) {
	f.t.Helper()
	if f.n[kind]++; f.n[kind] <= 3 {
		f.t.Errorf("%s: %s", kind, fmt.Sprintf(format, args...))
	}
}

// count reports their number.
func (f *faults) count() {
	f.t.Helper()
	for kind, n := range f.n {
		f.t.Errorf("%d wrong: %s", n, kind)
	}
}

// Faults returns the number of errors, by kind.
func (f *faults) Faults() map[string]int { return f.n }
