package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
)

func newDoctor(code *failure.ExitCode) *cobra.Command {
	var (
		o           = preflight.Request{Version: version}
		which       selectionFlags
		asJSON      bool
		readFilters bool
	)
	c := &cobra.Command{
		Use:   "doctor [PID[,PID…]]",
		Short: "what could stand in the way of an attach, here or to PID, before anything is touched",
		Long: `doctor looks at everything that could stand in the way of an attach, on this
machine or to PID and the GPU processes below it, and at which optional parts are
off. It stops nothing and writes nothing. It ends with 0 if nothing stands in the
way that can be seen from outside (what the process's own loader and runtime will
say cannot), with 1 if that cannot be told without a stop (or the answer not be
written, which is said), and else with the attach's exit code.`,
		Example: doctorExamples,
		Args:    atMostOnePID,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, pids := range args {
				if err := which.pids.Set(pids); err != nil {
					return err
				}
			}
			selection, err := which.selection()
			if err != nil && !errors.Is(err, errNoPID) {
				return usageError{err}
			}
			if err := checkTraceName(o.Output); err != nil {
				return usageError{err}
			}
			d, err := preflight.Diagnose(o, selection, readFilters)
			if err != nil {
				return err
			}
			*code = d.ExitCode
			return writeFound("the diagnosis", d.ExitCode, asJSON, d, writeDiagnosis)
		},
	}
	which.addTo(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVar(&readFilters, "read-filters", false, "if PID has seccomp filters, stop one thread for a moment to read them")
	c.Flags().StringVarP(&o.Output, "output", "o", preflight.DefaultOutput, "the trace `FILE` that there would be")
	giveVariable(c.Flags().Lookup("output")) // a recording would take it
	return c
}

func atMostOnePID(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{errors.New("at most one argument can be given: a pid, or several with commas between them")}
	}
	return nil
}

var marks = map[preflight.Result]string{
	preflight.Fine: "✓", preflight.Less: "!", preflight.Off: "–", preflight.Unclear: "?", preflight.Fails: "✗", preflight.Skipped: " ",
}

// writeDiagnosis prints a line for each check, and below it why and what to do.
func writeDiagnosis(w io.Writer, d *preflight.Diagnosis) error {
	switch {
	case d.Command != "":
		fmt.Fprintf(w, "pid %d (%s)\n", d.PID, line(d.Command))
	case d.PID != 0:
		fmt.Fprintf(w, "pid %d\n", d.PID)
	}
	part := ""
	for _, c := range d.Checks {
		if part != c.Part {
			part = c.Part
			fmt.Fprintf(w, "%s\n", part)
		}
		writeCheck(w, c)
	}
	writeWorkers(w, d)
	_, err := fmt.Fprintln(w, line(d.Told()))
	return err
}

// writeWorkers prints a line for each, and what is not as it should be.
func writeWorkers(w io.Writer, d *preflight.Diagnosis) {
	if len(d.Workers) > 0 {
		fmt.Fprintln(w, "workers")
	}
	for _, worker := range d.Workers {
		who := fmt.Sprintf("pid %d", worker.PID)
		if worker.Rank != nil {
			who = fmt.Sprintf("rank %d, %s", *worker.Rank, who)
		}
		fmt.Fprintf(w, "%s %s (%s): %s\n", marks[worker.Verdict], who, line(worker.Command), line(worker.Told()))
		for _, c := range worker.Checks {
			if c.Result != preflight.Fine && c.Result != preflight.Skipped {
				writeCheck(w, c)
			}
		}
	}
	if d.PassedOver != "" {
		fmt.Fprintf(w, "without a GPU: %s\n", line(d.PassedOver))
	}
}

func writeCheck(w io.Writer, c preflight.CheckResult) {
	found := c.Found
	if found == "" {
		found = string(c.Result)
	}
	fmt.Fprintf(w, "  %s %-12s %s\n", marks[c.Result], c.Name, line(found))
	if c.Cause == "" {
		return
	}
	for _, l := range [][2]string{{"looked at", c.LookedAt}, {"cause", c.Cause}, {"fix", c.Fix}} {
		if l[1] != "" {
			fmt.Fprintf(w, "      %-10s %s\n", l[0], line(l[1]))
		}
	}
}
