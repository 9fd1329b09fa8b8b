package discover

import (
	"strings"
	"testing"
)

func TestROCmVersion(t *testing.T) {
	for file, want := range map[string]string{
		"/opt/rocm-6.4.3/lib/libhsa-runtime64.so.1.15.60403":    "6.4.3",
		"/opt/rocm/lib/libhsa-runtime64.so.1.18.70002":          "7.0.2",
		"/opt/rocm-5.2.0/hsa/lib/libhsa-runtime64.so.1":         "5.2.0",
		"/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1.5.0":   "runtime 1.5.0",
		"/venv/torch/lib/libhsa-runtime64.so":                   "version unknown",
		"/venv/rocm-x/libhsa-runtime64.so":                      "version unknown",
		"/x/libhsa-runtime64.so." + strings.Repeat("9", 4000):   "version unknown",
		"libhsa-runtime64.so.1.\x1b[31m":                        "runtime 1.\x1b[31m",
		"/a/rocm-6.1.2/b/libhsa-runtime64.so.1.13.0.1.5\n/evil": "6.1.2",
	} {
		if got := ROCmVersion(file); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}
