package pausemeter

import "testing"

// BenchmarkOpen is what every attach pays for the kernel's clock.
func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		m, err := Open()
		if err != nil {
			b.Skip(err)
		}
		m.Close()
	}
}
