package filter

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Range is the numbers from First to Last.
type Range struct{ First, Last uint64 }

// Ranges are disjoint, in ascending order.
type Ranges []Range

// mostRanges limits a list.
const mostRanges = 1 << 10

// Has reports whether a number is in the ranges.
func (rs Ranges) Has(n uint64) bool {
	at, _ := slices.BinarySearchFunc(rs, n, func(r Range, n uint64) int {
		switch {
		case r.Last < n:
			return -1
		case r.First > n:
			return 1
		}
		return 0
	})
	return at < len(rs) && rs[at].First <= n && n <= rs[at].Last
}

// merge sorts ranges and joins those that overlap or touch.
func merge(all Ranges) (merged Ranges) {
	slices.SortFunc(all, func(a, b Range) int {
		switch {
		case a.First < b.First:
			return -1
		case a.First > b.First:
			return 1
		}
		return 0
	})
	for _, r := range all {
		if last := len(merged) - 1; last >= 0 && r.First <= merged[last].Last+1 {
			merged[last].Last = max(merged[last].Last, r.Last)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// parseRange reads N or N-M.
func parseRange(text string, least uint64) (r Range, err error) {
	first, last, isRange := strings.Cut(text, "-")
	if r.First, err = parseNumber(first, least); err != nil {
		return r, err
	}
	r.Last = r.First
	if isRange {
		if r.Last, err = parseNumber(last, least); err != nil {
			return r, err
		}
	}
	if r.Last < r.First {
		return r, fmt.Errorf("%s ends before it begins", text)
	}
	return r, nil
}

func parseNumber(text string, least uint64) (uint64, error) {
	const most = math.MaxInt64 - 1
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 63)
	if err != nil || n > most {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	if n < least {
		return 0, fmt.Errorf("counts from %d", least)
	}
	return n, nil
}

var (
	errEmpty = errors.New("no number")
	errMany  = fmt.Errorf("more than %d ranges", mostRanges)
)

// parseFields reads ranges from fields.
func parseFields(fields []string, least uint64) (Ranges, error) {
	if len(fields) == 0 {
		return nil, errEmpty
	}
	if len(fields) > mostRanges {
		return nil, errMany
	}
	var all Ranges
	for _, field := range fields {
		r, err := parseRange(field, least)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return merge(all), nil
}

// parseList reads 0,2-3.
func parseList(text string, least uint64) (Ranges, error) {
	return parseFields(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), least)
}

// parseIterations reads rocprofv3's form: [1-2],[5], without the brackets, too, and its older
// separator |.
func parseIterations(text string) (Ranges, error) {
	return parseFields(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("[],| ", r) }), 1)
}

// gpus are GPUs by number or by PCI address.
type gpus struct {
	numbers   Ranges
	addresses []int64
}

func (g *gpus) restrict() bool { return len(g.numbers)+len(g.addresses) > 0 }

var pciAddress = regexp.MustCompile(`^(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])$`)

// PCIAddress returns an address as a trace has it: domain << 32 | bus << 8 | device << 3 | function.
func PCIAddress(domain, bdf uint32) int64 { return int64(domain)<<32 | int64(bdf) }

// parseGPUs reads a list of numbers, ranges of numbers and PCI addresses.
func parseGPUs(text string) (g gpus, err error) {
	var numbers []string
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		part := pciAddress.FindStringSubmatch(field)
		if part == nil {
			numbers = append(numbers, field)
			continue
		}
		var n [4]uint64
		for i, digits := range part[1:] {
			if digits != "" {
				n[i], _ = strconv.ParseUint(digits, 16, 32) // the pattern has only such digits
			}
		}
		if n[2] > 0x1f {
			return g, fmt.Errorf("%q is not a PCI address", field)
		}
		g.addresses = append(g.addresses, PCIAddress(uint32(n[0]), uint32(n[1]<<8|n[2]<<3|n[3])))
	}
	if len(numbers) > 0 || len(g.addresses) == 0 {
		g.numbers, err = parseFields(numbers, 0)
	}
	if len(g.addresses) > mostRanges {
		err = errMany
	}
	return g, err
}
