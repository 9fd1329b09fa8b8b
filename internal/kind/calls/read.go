package calls

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// named is a function of an API in a trace.
type named struct {
	name               string // harmless
	number             int64  // among the names of the API's functions in the trace
	hasStatus          bool
	*function.Function // nil: this version does not know it
}

// functionsOf returns the functions of an API in a trace, by their rows, and their names.
func (a *api) functionsOf(ctx context.Context, tr *traceread.Trace) (map[int64]*named, []string, error) {
	all, names := map[int64]*named{}, map[string]bool{}
	err := tr.Define(ctx, func(r traceread.Row) error {
		var row int64
		var f named
		if err := r.Scan(&row, &f.name, &f.hasStatus); err != nil {
			return err
		}
		if n, known := function.Named(f.name); known && function.Table()[n].Kind == a.id {
			f.Function = &function.Table()[n]
		}
		f.name = sanitize.Text(traceread.Cut(f.name, traceread.LongestWord))
		all[row], names[f.name] = &f, true
		return nil
	}, `SELECT f.id, n.string, f.has_status = 1 FROM rtl_function f JOIN rocpd_string n ON n.id = f.name_id
		WHERE f.api_id = (SELECT id FROM rocpd_string WHERE string = ?)`, a.id.String())
	sorted := slices.Sorted(maps.Keys(names))
	for _, f := range all {
		n, _ := slices.BinarySearch(sorted, f.name)
		f.number = int64(n)
	}
	return all, sorted, err
}

// HIPFunctions returns the harmless names of the functions of HIP's runtime API in a trace, by their rows.
func HIPFunctions(ctx context.Context, tr *traceread.Trace) (map[int64]string, error) {
	all, _, err := (&api{id: ring.KindHIPRuntimeAPI}).functionsOf(ctx, tr)
	byRow := make(map[int64]string, len(all))
	for row, f := range all {
		byRow[row] = f.name
	}
	return byRow, err
}

// resultText returns a result for people.
func (f *named) resultText(result int64) string {
	if f.Function == nil {
		return fmt.Sprint(result)
	}
	return f.ResultText(uint64(result))
}

// wordsOf returns the recorded words of a call, and how many there are.
func wordsOf(blob []byte) (words [registers + stackWords]uint64, n int) {
	n = min(len(blob)/8, len(words))
	for i := range n {
		words[i] = binary.BigEndian.Uint64(blob[8*i:])
	}
	return words, n
}

// arguments returns the arguments of a call for people: by name, or as words if the function is not
// known.
func (f *named) arguments(flags int64, blob []byte) []function.Argument {
	words, n := wordsOf(blob)
	if f.Function != nil {
		return f.Arguments([registers]uint64(words[:registers]), words[registers:max(n, registers)], flags&HasOut != 0)
	}
	var all []function.Argument
	for i, w := range words[:n] {
		all = append(all, function.Argument{Name: fmt.Sprint("word", i), Value: fmt.Sprintf("%#x", w)})
	}
	return all
}

// join returns arguments as rocmProfileData has them.
func join(arguments []function.Argument) string {
	var b strings.Builder
	for i, a := range arguments {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.Name + "=" + a.Value)
	}
	return b.String()
}
