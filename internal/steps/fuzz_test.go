package steps

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/graphs"
)

// FuzzSteps: a trace may have been made by anybody. Each byte is a kernel: its name, and the time before it. What is
// found holds together.
func FuzzSteps(f *testing.F) {
	f.Add([]byte("abcdabcdabcdabcdxabcdabcd"), uint16(1))
	f.Add([]byte("aaaaaaaaaaaabaaaaaaaaaaaab"), uint16(100))
	f.Add([]byte("PabababcPabababcDabababcDababab"), uint16(2000))
	f.Fuzz(func(t *testing.T, names []byte, times uint16) {
		if len(names) > 1<<10 {
			names = names[:1<<10]
		}
		var s submits
		for range min(int(times), 1<<13/(1+len(names))) + 1 {
			for _, n := range names {
				s.atNS += int64(n>>4) * 1000
				s.all = append(s.all, graphs.Step{AtNS: s.atNS, StartNS: s.atNS + int64(n%5)*700, DurationNS: int64(n) * 10, Name: int64(n & 31)})
			}
		}
		steps, kernels := int64(0), int64(0)
		th, _, found := s.found(t, func(one Step) error {
			steps++
			kernels += int64(len(one.Kernels))
			if one.Number != steps || one.EndNS < one.StartNS || one.IdleNS < 0 || one.IdleNS > one.EndNS-one.StartNS || len(one.Kernels) == 0 {
				t.Fatalf("%+v", one)
			}
			if p := one.Kind.Part; !one.Differs && p.First+p.Kernels*p.Times > len(one.Kernels) {
				t.Fatalf("%+v", one)
			}
			return nil
		})
		if found && (th.Steps != steps || th.In != kernels || th.In > th.Kernels) {
			t.Fatalf("%+v: %d steps, %d kernels", th, steps, kernels)
		}
	})
}
