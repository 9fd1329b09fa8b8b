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
		Short: "check whether an attach would work, on this machine or to PID; touches nothing",
		Long: `doctor checks everything that could prevent an attach, on this machine or to PID
and the GPU processes below it, and reports which optional parts are off. It stops
nothing and writes nothing. It exits with 0 if it finds no obstacle (it cannot
foresee what the process's own loader and runtime will answer), with 1 if it would
have to stop the process to know, or could not print its answer, and otherwise with
the exit code of the attach.`,
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
	giveVariable(c.Flags().Lookup("output")) // doctor checks the file that a recording would write
	return c
}

func atMostOnePID(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{errors.New("at most one argument: a pid, or several with commas between them")}
	}
	return nil
}

var marks = map[preflight.Result]string{
	preflight.Fine: "✓", preflight.Less: "!", preflight.Off: "–", preflight.Unclear: "?", preflight.Fails: "✗", preflight.Skipped: " ",
}

// writeDiagnosis prints a line for each check, with its cause and fix below.
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

// writeWorkers prints a line for each worker, and its checks that are not fine.
func writeWorkers(w io.Writer, d *preflight.Diagnosis) {
	if len(d.Workers) > 0 {
		fmt.Fprintln(w, "workers")
	}
	for _, worker := range d.Workers {
		process := fmt.Sprintf("pid %d", worker.PID)
		if worker.Rank != nil {
			process = fmt.Sprintf("rank %d, %s", *worker.Rank, process)
		}
		fmt.Fprintf(w, "%s %s (%s): %s\n", marks[worker.Verdict], process, line(worker.Command), line(worker.Told()))
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
