package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/report"
)

type reportFlags struct {
	json      bool
	csv       string
	kernels   int
	fullNames bool
	window    string
	steps     string
	gaps      int
	query     string
	patterns  string
	filters   filterFlags
}

func newReport(code *failure.ExitCode) *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use:   "report FILE…",
		Short: "report on a trace: kernels, busy and idle times, gaps and their causes; needs no privileges",
		Long: `Report on a trace: top kernels, busy and idle time of each GPU and queue with the
share of it that was observed, gaps and what the GPU was probably waiting for, the
time from launch to start. If threads were recorded (--sample, --sched), also what
they did while a GPU was idle. Needs no privileges. Several traces are reported one
after the other, not compared.`,
		Example: reportExamples,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return usageError{err}
			}
			for _, trace := range args {
				if err := f.about(c, trace, code); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.BoolVar(&f.json, "json", false, "as JSON")
	flags.StringVar(&f.csv, "csv", "", "one `TABLE` as CSV ("+report.Tables[0].Name+" without a name): "+report.TableNames())
	flags.Lookup("csv").NoOptDefVal = report.Tables[0].Name
	flags.IntVar(&f.kernels, "kernels", kernelsInSummary, "name `N` kernels; 0: all")
	flags.BoolVar(&f.fullNames, "full-names", false, "list kernels by full name, not in groups")
	flags.StringVar(&f.window, "window", "", "report only `A:B` after the first attach, such as 1s:2.5s, 1s: or :500ms")
	f.filters.addTo(flags)
	f.filters.addRank(flags, fmt.Sprintf(rankUsage, "report only"))
	flags.StringVar(&f.steps, "steps", "", "report only the time of steps: `N`, the last N, or A:B, by number")
	flags.IntVar(&f.gaps, "gaps", 0, "list the `N` longest gaps (10 without a number), each with what its thread did, and the stacks")
	flags.Lookup("gaps").NoOptDefVal = "10"
	addCollectives(flags, &f.patterns)
	flags.StringVar(&f.query, "sql", "", "print the result of `QUERY`, one SELECT, on a read-only connection")
	return c
}

// mostGaps limits --gaps.
const mostGaps = 1000

func (f reportFlags) check(traces []string) error {
	switch {
	case len(traces) == 0:
		return errors.New("a trace file is needed")
	case len(traces) > 1 && f.csv != "":
		m := mistyped{error: errors.New("--csv is a table of one trace")}
		if last := traces[len(traces)-1]; len(traces) == 2 && isTable(last) {
			m.meant = "--csv=" + last
		}
		return m
	}
	return areFiles(traces)
}

func isTable(name string) bool {
	_, known := report.TableNamed(name)
	return known
}

func (f reportFlags) about(c *cobra.Command, trace string, code *failure.ExitCode) error {
	if c.Flags().Changed("sql") {
		return f.ask(c, trace)
	}
	return f.report(trace, code)
}

// parseWindow parses A:B; A or B may be empty.
func parseWindow(text string) (*report.Span, error) {
	if text == "" {
		return nil, nil
	}
	from, until, ok := strings.Cut(text, ":")
	if !ok {
		return nil, fmt.Errorf("--window %q: A:B is needed, such as 1s:2.5s", text)
	}
	var s report.Span
	for _, side := range []struct {
		text string
		into *int64
	}{{from, &s.FromNS}, {until, &s.UntilNS}} {
		if side.text == "" {
			continue
		}
		d, err := parseDuration(side.text)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("--window %q: %q is not a time such as 1.5s", text, side.text)
		}
		*side.into = int64(d)
	}
	if until != "" && s.UntilNS <= s.FromNS {
		return nil, fmt.Errorf("--window %q ends before it begins", text)
	}
	return &s, nil
}

func (f reportFlags) options() (o report.Options, table report.Table, err error) {
	known := true
	if f.csv != "" {
		table, known = report.TableNamed(f.csv)
	}
	switch {
	case !known:
		err = fmt.Errorf("--csv %q: one of %s", f.csv, report.TableNames())
	case f.json && f.csv != "":
		err = errors.New("--json or --csv, not both")
	case f.window != "" && f.steps != "":
		err = errors.New("--window or --steps, not both")
	case f.gaps < 0 || f.gaps > mostGaps:
		err = fmt.Errorf("--gaps %d: 1 to %d", f.gaps, mostGaps)
	case f.kernels < 0:
		err = errors.New("--kernels is negative")
	default:
		o.Kernels, o.Gaps = f.kernels, f.gaps
		if o.Window, err = parseWindow(f.window); err == nil {
			o.Filter, err = f.filters.filter()
		}
		if err == nil {
			o.Steps, err = parseSteps(f.steps)
		}
		if err == nil {
			o.Collectives, err = parseCollectives(f.patterns)
		}
	}
	return o, table, err
}

func (f reportFlags) report(trace string, code *failure.ExitCode) error {
	o, table, err := f.options()
	if err != nil {
		return usageError{err}
	}
	r, err := report.Make(trace, o)
	if err != nil {
		return failure.ReportFailed(trace, err)
	}
	if r.Dispatched() == 0 && r.OfKinds() == 0 {
		*code = failure.NothingSeen
		newUI(false, false).Warn("no timed dispatch, copy or call is in this trace, or no dispatch in this window of it")
	}
	switch {
	case f.json:
		err = r.WriteJSON(os.Stdout)
	case f.csv != "":
		err = r.WriteCSV(os.Stdout, table)
	default:
		err = r.WriteText(os.Stdout, f.fullNames)
	}
	if err != nil {
		return failure.ReportFailed(trace, err)
	}
	return nil
}

// ask prints the result of the user's query.
func (f reportFlags) ask(c *cobra.Command, trace string) error {
	for _, other := range append([]string{"window", "steps", "kernels", "full-names", "gaps", "collectives"}, f.filters.names...) {
		if c.Flags().Lookup(other).Changed {
			return usageError{fmt.Errorf("--sql asks the whole trace: --%s has no meaning", other)}
		}
	}
	form := report.Tabs
	switch {
	case strings.TrimSpace(f.query) == "":
		return usageError{errors.New("--sql: a query is needed")}
	case f.json && f.csv != "":
		return usageError{errors.New("--json or --csv, not both")}
	case f.json:
		form = report.JSON
	case f.csv != "":
		form = report.CSV
	}
	if err := report.Query(c.Context(), os.Stdout, trace, f.query, form); err != nil {
		return failure.ReportFailed(trace, err)
	}
	return nil
}
