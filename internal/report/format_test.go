package report

import (
	"testing"
)

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		duration(0):              "0 ns",
		duration(999):            "999 ns",
		duration(31_100):         "31.1 µs",
		duration(999_600):        "1 ms",
		duration(1_910_000_000):  "1.91 s",
		duration(-2_500):         "-2.5 µs",
		duration(72_000_000_000): "72 s",
		size(131_000_000):        "131 MB",
		size(512):                "512 B",
		brief("void f<int (*)(float)>(char*, int (*)(long))"): "f<int (*)(float)>",
		brief("(anonymous)"):     "(anonymous)",
		brief("broken)"):         "broken)",
		brief("Cijk_MT128"):      "Cijk_MT128",
		shorten("abcdefghij", 7): "abcd…ij",
		shorten("short", 7):      "short",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
