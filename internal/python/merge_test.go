package python

import (
	"testing"
)

// order writes a merged stack with the native frames as n0, n1 … and those of Python as p0, p1 ….
func order(places []Place) (text string) {
	for _, at := range places {
		text += map[bool]string{false: " n", true: " p"}[at.Python] + string(rune('0'+at.Index))
	}
	return text
}

// Native 10 to 19 are in the evaluation function.
func TestMerge(t *testing.T) {
	f, mark := RawFrame{}, RawFrame{Mark: true}
	shim := func(at uint64) RawFrame { return RawFrame{Mark: true, Address: at} }
	v311 := &Interpreter{evalBegin: 10, evalEnd: 20, offsets: offsets{markIs: 1}}
	v312 := &Interpreter{evalBegin: 10, evalEnd: 20, offsets: offsets{markIs: markedShim}}
	v314 := &Interpreter{offsets: offsets{markIs: markedShim}} // tail calls
	for name, c := range map[string]struct {
		p      *Interpreter
		native []Native
		frames []RawFrame
		want   string
	}{
		"no Python":                         {v311, []Native{{PC: 1}, {PC: 12}}, nil, " n0 n1"},
		"one call with two functions":       {v311, []Native{{PC: 1}, {PC: 12}, {PC: 2}}, []RawFrame{f, mark}, " n0 p0 p1 n2"},
		"two calls":                         {v311, []Native{{PC: 12}, {PC: 1}, {PC: 12}, {PC: 2}}, []RawFrame{f, mark, mark}, " p0 p1 n1 p2 n3"},
		"the native stack is cut":           {v311, []Native{{PC: 1}, {PC: 12}}, []RawFrame{mark, f, mark}, " n0 p0 p1 p2"},
		"a shim is no function":             {v312, []Native{{PC: 1}, {PC: 12}, {PC: 2}}, []RawFrame{f, mark}, " n0 p0 n2"},
		"a call that has only begun":        {v312, []Native{{PC: 12}, {PC: 12}, {PC: 2}}, []RawFrame{mark, f, mark}, " n0 p1 n2"},
		"shims by the stack pointers":       {v314, []Native{{1, 100}, {2, 110}, {3, 120}, {4, 130}, {5, 140}}, []RawFrame{f, shim(115), f, f, shim(139)}, " n0 p0 n2 p2 p3 n4"},
		"a shim that is in no native frame": {v314, []Native{{1, 100}, {2, 110}}, []RawFrame{f, shim(50)}, " n0 n1 p0"},
		"not by chance, where it is known":  {v312, []Native{{12, 100}, {13, 110}, {3, 120}}, []RawFrame{f, shim(112)}, " n0 p0 n2"},
	} {
		if got := order(c.p.Merge(c.native, c.frames)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
