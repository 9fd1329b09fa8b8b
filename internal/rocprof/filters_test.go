package rocprof

import (
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/filter"
)

// TestForFilter: filters reach rocprofiler-sdk's tool as rocprofv3 sets them, and what would end the process does not.
func TestForFilter(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{filter.IncludeRegex, `gemm|Cijk_.*\d{2,3}$`, `ROCPROF_KERNEL_FILTER_INCLUDE_REGEX=gemm|Cijk_.*\d{2,3}$`},
		{filter.ExcludeRegex, `^void at::native::\(anon`, `ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX=^void at::native::\(anon`},
		{filter.ExcludeRegex, `(?:a|b)[[:alpha:]_]\x41\{`, `ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX=(?:a|b)[[:alpha:]_]\x41\{`},
		{filter.IncludeRegex, `\\(x)`, `ROCPROF_KERNEL_FILTER_INCLUDE_REGEX=\\(x)`},
		{filter.IterationRange, "1|[5-8],7-9", "ROCPROF_KERNEL_FILTER_RANGE=[1], [5-9]"},
		{filter.IterationRange, "[1-1000000]", "ROCPROF_KERNEL_FILTER_RANGE=[1-1000000]"},
		{filter.IterationRange, "[1-999999],[1000002-1000003]", "at most 1000000 dispatches"},
		{filter.IterationRange, "[1-9223372036854775806]", "at most 1000000 dispatches"},
		{filter.IncludeRegex, `(?i)gemm`, "ECMAScript"},
		{filter.IncludeRegex, `(?P<n>x)`, "ECMAScript"},
		{filter.IncludeRegex, `\pN`, "ECMAScript"},
		{filter.IncludeRegex, `\Aa\z`, "ECMAScript"},
		{filter.IncludeRegex, `\x{41}`, "ECMAScript"},
		{filter.IncludeRegex, `a{`, "ECMAScript"},
		{filter.IncludeRegex, `a{,3}`, "ECMAScript"},
		{filter.IncludeRegex, `[[:word:]]`, "ECMAScript"},
		{filter.IncludeRegex, `[]a]`, "ECMAScript"},
		{filter.IncludeRegex, `[a[.]`, "ECMAScript"},
		{filter.IncludeRegex, `x[.]y`, "ROCPROF_KERNEL_FILTER_INCLUDE_REGEX=x[.]y"},
		{filter.GPU, "0", ""},
	} {
		f, err := filter.New([]filter.Setting{{Name: c.name, Value: c.value}})
		if err != nil {
			t.Fatal(err)
		}
		vars, err := ForFilter(f)
		got := ""
		if len(vars) > 0 {
			got = vars[0].Name + "=" + vars[0].Value
		}
		if err != nil {
			if got = err.Error(); strings.Contains(got, c.want) && c.want != "" && strings.HasPrefix(got, "--"+c.name) {
				continue
			}
		}
		if got != c.want {
			t.Errorf("--%s %q: %q, want %q", c.name, c.value, got, c.want)
		}
	}
}
