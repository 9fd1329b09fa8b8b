package runtimes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// A kindRow is what became of a kind's items that the truth has.
type kindRow struct {
	suite, kind, attached string

	recorded int            // and equal to the truth
	counted  map[string]int // not recorded in full: how many, by the reason that the trace gives
	failed   bool
}

// A kindTable has a column for each runtime.
type kindTable struct {
	versions, suites []string
	rows             []kindRow
}

func (k *kindTable) print() {
	for _, of := range k.versions {
		fmt.Println(of)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "kind\tattached\t"+strings.Join(k.suites, "\t"))
	lines, equal := map[string][]string{}, 0
	var order []string
	for _, r := range k.rows {
		of := r.kind + "\t" + r.attached
		if lines[of] == nil {
			order, lines[of] = append(order, of), make([]string, len(k.suites))
		}
		lines[of][slices.Index(k.suites, r.suite)] = r.String()
		if !r.failed {
			equal++
		}
	}
	for _, of := range order {
		fmt.Fprintln(w, of+"\t"+strings.Join(lines[of], "\t"))
	}
	_ = w.Flush()
	fmt.Printf("%d comparisons, %d equal to the truth\n", len(k.rows), equal)
}

// String is a cell of the table: the recorded items, of those that the truth has.
func (r kindRow) String() string {
	if r.failed {
		return "FAILED"
	}
	truth := r.recorded
	var reasons []string
	for reason, n := range r.counted {
		if truth += n; n > 0 {
			reasons = append(reasons, reason)
		}
	}
	if truth == r.recorded {
		return fmt.Sprint(r.recorded)
	}
	slices.Sort(reasons)
	return fmt.Sprintf("%d of %d (%s)", r.recorded, truth, strings.Join(reasons, ", "))
}
