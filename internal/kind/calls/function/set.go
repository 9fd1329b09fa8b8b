package function

import (
	"cmp"
	"path"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Set is a set of functions: true at each one's index in Table.
type Set []bool

// NewSet returns the functions for which in returns true.
func NewSet(in func(*Function) bool) Set {
	table := Table()
	s := make(Set, len(table))
	for i := range table {
		s[i] = in(&table[i])
	}
	return s
}

// Digits returns the set as the payload takes it (RTL_OPERATIONS): hexadecimal digits, of which the
// i-th has the functions 4i (its lowest bit) to 4i + 3. Zeros at the end are left out, except for one: an
// empty text is the payload's default, and not the empty set.
func (s Set) Digits() string {
	const digits = "0123456789abcdef"
	values := make([]byte, (len(s)+3)/4)
	for i, in := range s {
		if in {
			values[i/4] |= 1 << (i % 4)
		}
	}
	for i, v := range values {
		values[i] = digits[v]
	}
	return cmp.Or(strings.TrimRight(string(values), "0"), "0")
}

// Kinds returns the kinds to which the functions of the set belong.
func (s Set) Kinds() map[ring.Kind]bool {
	kinds := map[ring.Kind]bool{}
	for i, in := range s {
		if in {
			kinds[Table()[i].Kind] = true
		}
	}
	return kinds
}

// Matching returns the functions whose name matches a pattern of path.Match: a name, or with * and ?.
func Matching(pattern string) (Set, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	return NewSet(func(f *Function) bool {
		matches, _ := path.Match(pattern, f.Name)
		return matches
	}), nil
}
