package runtimes

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// A row is a runtime, or what one scenario on it has shown.
type row struct {
	versions string // of a runtime: then nothing else

	scenario  string
	cycles    int
	of        *harness.Comparison     // nil: it did not come to that
	copies    *harness.CopyComparison // nil: none were to be recorded
	stops     int64                   // of single threads, by the tool, in all cycles
	worstStop time.Duration
	failed    bool
}

func printTable(rows []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	ran, attaches, equal := 0, 0, 0
	fmt.Fprintln(w, "runtime\tattaches\texecuted\trecorded\tuntimed\tlost\tworst time\tcopies\tuntimed\tstops\tworst stop\tresult")
	for _, r := range rows {
		if r.versions != "" {
			fmt.Fprintln(w, r.versions)
			continue
		}
		ran++
		attaches += r.cycles
		if !r.failed {
			equal++
		}
		fmt.Fprintln(w, r)
	}
	_ = w.Flush()
	fmt.Printf("%d scenarios, %d attaches: %d equal to the truth and unharmed, %d not\n", ran, attaches, equal, ran-equal)
}

// String is a line of the table. Executed is what the truth has between the
// ends of the recording's windows: recorded, untimed for a reason that is said
// for each, or lost and counted.
func (r row) String() string {
	result := "equal"
	if r.failed {
		result = "FAILED"
	}
	if r.of == nil {
		return fmt.Sprintf("  %s\t%d\t\t\t\t\t\t\t\t\t\t%s", r.scenario, r.cycles, result)
	}
	untimed := 0
	for reason, n := range r.of.Untimed {
		if reason != "after-detach" { // claimed in a window, executed after it
			untimed += n
		}
	}
	return fmt.Sprintf("  %s\t%d\t%d\t%d\t%d\t%d\t%d ns\t%s\t%d\t%v\t%s", r.scenario, r.cycles, r.of.InWindows, r.of.Recorded,
		untimed, r.of.Lost, r.of.WorstNS, r.ofCopies(), r.stops, r.worstStop, result)
}

// ofCopies: recorded, and of these untimed.
func (r row) ofCopies() string {
	if r.copies == nil {
		return "\t"
	}
	timed, untimed := r.copies.Recorded()
	return fmt.Sprintf("%d\t%d", timed+untimed, untimed)
}
