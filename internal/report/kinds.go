package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// readKinds reads the further kinds of record, after the kernels have been counted.
func (r *Report) readKinds(tr *traceread.Trace, a *analysis, window traceread.Span) error {
	reading := kind.Reading{Ctx: background, Trace: tr, Window: window, Where: r.inWindow(), Kernel: a.kernels.totals}
	for _, k := range all.Kinds {
		if k.Read == nil {
			continue
		}
		if is, err := k.IsIn(tr); err != nil {
			return err
		} else if !is {
			continue
		}
		section, err := k.Read(&reading)
		if err != nil {
			return fmt.Errorf("%s: %w", k.ID, err)
		}
		if section == nil {
			continue
		}
		if r.Kinds == nil {
			r.Kinds = map[string]any{}
		}
		r.Kinds[k.ID.String()] = section.Value
		r.sections = append(r.sections, section)
	}
	return nil
}

// totals returns the number of counted kernels with a name, and the sum of their times.
func (ks *kernels) totals(nameID int64) (calls, totalNS int64) {
	if k := ks.byID[nameID]; k != nil {
		return k.calls, k.totalNS
	}
	return 0, 0
}

// OfKinds returns how many timed records of kinds other than dispatches the report counts.
func (r *Report) OfKinds() (n int64) {
	for _, s := range r.sections {
		n = traceread.Sum(n, s.Timed)
	}
	return n
}

// writeKinds writes the sections of the kinds of which something was recorded, and then a line with the others.
func (s *Summary) writeKinds(b *bytes.Buffer) {
	var none []string
	for _, section := range s.sections {
		if section.None != "" {
			none = append(none, section.None)
			continue
		}
		for _, l := range section.Lines {
			line(b, l.Label, "%s", l.Text)
		}
	}
	if len(none) > 0 {
		line(b, "None of", "%s", strings.Join(none, "; "))
	}
}

// kindTables are the CSV tables of kinds.
func kindTables() (tables []Table) {
	for _, k := range all.Kinds {
		for _, t := range k.CSV {
			tables = append(tables, Table{t.Name, t.Columns, func(r *Report) [][]any {
				value, recorded := r.Kinds[k.ID.String()]
				if !recorded {
					return nil
				}
				return t.Rows(value)
			}})
		}
	}
	return tables
}
