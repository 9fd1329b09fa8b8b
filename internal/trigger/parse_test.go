package trigger

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, wrong := range map[string]string{
		"gap>50ms":                     "",
		" gap > 1m30s ":                "",
		"busy<30% for 2s":              "",
		"busy < 12.5 %":                "",
		"kernel /RE/ > 3x p50":         "",
		"kernel /a/b > c/ > 2.5 x p99": "",
		"kernel /gemm|conv/>5ms":       "",
		"launch-latency p99 > 5ms":     "",
		"launch-latency p99.9>100us":   "",
		"exit":                         "",

		"":                            "no condition begins so",
		"gaps>50ms":                   "no condition begins so",
		"gap":                         "> is needed here: gap>50ms",
		"gap<50ms":                    "> is needed here",
		"gap>50":                      `"50" is not a time such as 50ms`,
		"gap>-1s":                     "above 0",
		"gap>2h":                      "at most 1h",
		"busy<30":                     "is not a share such as 30%",
		"busy<0%":                     "is not a share",
		"busy<NaN%":                   "is not a share",
		"busy<30% for 1ms":            "at least 100ms",
		"busy<30% for":                "is not a time",
		"kernel gemm > 5ms":           "between slashes",
		"kernel / > 5ms":              "between slashes",
		"kernel /(/ > 5ms":            "missing closing",
		"kernel /a/ 5ms":              "> is needed here",
		"kernel /a/ > 0x p50":         "is not a number of times",
		"kernel /a/ > Infx p50":       "is not a number of times",
		"kernel /a/ > 3x 50":          "is not a percentile such as p99",
		"launch-latency > 5ms":        "is not a percentile",
		"launch-latency p100 > 5ms":   "is not a percentile",
		"launch-latency p99":          "> is needed here",
		"exit now":                    `"now" behind exit`,
		strings.Repeat("g", 2000):     "longer than",
		"gap>9999999999999999999999s": "is not a time",
	} {
		_, err := Parse(text)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%.40q: %v, want %q", text, err, wrong)
		}
	}
}

// What Parse accepts can be looked for, and parses again to the same text.
func FuzzParse(f *testing.F) {
	for _, text := range strings.Split(Grammar, ", ") {
		f.Add(text)
	}
	f.Add("kernel /(a+)+$/ > 1e3x p0.1")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		if again, err := Parse(c.Text); err != nil || again.Text != c.Text {
			t.Errorf("%q parses, and as %q it does not: %v", text, c.Text, err)
		}
		s := NewSet([]Condition{c})
		play(s, 300)
	})
}
