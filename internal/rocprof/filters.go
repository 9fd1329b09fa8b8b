package rocprof

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/filter"
)

// mostIterations limits a range for rocprofiler-sdk's tool, which keeps each number of it in the process's memory.
const mostIterations = 1_000_000

// ForFilter returns the variables by which rocprofv3 passes filters of kernels to rocprofiler-sdk's tool. The tool ends
// the process if it cannot read one of them: ForFilter refuses what only RE2 understands, and writes ranges in the one
// form that all versions of the tool read. An error names the flag.
func ForFilter(f *filter.Filter) (vars []envbuf.Var, err error) {
	for _, s := range f.Settings() {
		v := envbuf.Var{Value: s.Value}
		switch s.Name {
		case filter.IncludeRegex:
			v.Name, err = "ROCPROF_KERNEL_FILTER_INCLUDE_REGEX", checkRegex(s.Value)
		case filter.ExcludeRegex:
			v.Name, err = "ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX", checkRegex(s.Value)
		case filter.IterationRange:
			v.Name = "ROCPROF_KERNEL_FILTER_RANGE"
			v.Value, err = rangeText(f.Iterations())
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("--%s %q: %w", s.Name, s.Value, err)
		}
		vars = append(vars, v)
	}
	return vars, nil
}

func rangeText(ranges filter.Ranges) (string, error) {
	var parts []string
	left := uint64(mostIterations)
	for _, r := range ranges {
		if r.Last-r.First >= left {
			return "", fmt.Errorf("AMD's tool takes at most %d dispatches", mostIterations)
		}
		left -= r.Last - r.First + 1
		part := fmt.Sprintf("[%d-%d]", r.First, r.Last)
		if r.First == r.Last {
			part = fmt.Sprintf("[%d]", r.First)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", "), nil
}

// Parts of a regular expression that RE2 and ECMAScript (std::regex) do not read alike, or that std::regex refuses.
var (
	escaped    = regexp.MustCompile(`\\(?:x\{|[^bBdDsSwWfnrtvx[:^alnum:]])`)
	group      = regexp.MustCompile(`\(\?[^:]`)
	class      = regexp.MustCompile(`\[:\^?(?:word|ascii):|\[:\^|\[[^\]]*\[[.=]`)
	quantifier = regexp.MustCompile(`\{\d+(?:,\d*)?\}`)
	pair       = regexp.MustCompile(`\\.`)
)

var errDialect = errors.New("AMD's tool reads ECMAScript's regular expressions, which do not have all of this")

// checkRegex refuses an expression, valid in RE2, that std::regex does not read in the same way.
func checkRegex(text string) error {
	plain := pair.ReplaceAllString(text, "")
	if escaped.MatchString(strings.ReplaceAll(text, `\\`, "")) || group.MatchString(plain) || class.MatchString(plain) ||
		strings.Contains(quantifier.ReplaceAllString(plain, ""), "{") || strings.Contains(plain, "[]") || strings.Contains(plain, "[^]") {
		return errDialect
	}
	return nil
}
