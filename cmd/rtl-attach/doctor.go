package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/plain"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

func newDoctor(code *session.ExitCode) *cobra.Command {
	var (
		o           session.Options
		asJSON      bool
		readFilters bool
	)
	c := &cobra.Command{
		Use:   "doctor [PID]",
		Short: "what could stand in the way of an attach, here or to PID, before anything is touched",
		Long: `doctor looks at everything that could stand in the way of an attach, on this
machine or to PID, and at which optional parts are off. It stops nothing and
writes nothing. It ends with 0 only if an attach would work, with 1 if that
cannot be told without a stop, and else with the attach's exit code.`,
		Args: atMostOnePID,
		RunE: func(_ *cobra.Command, args []string) error {
			var err error
			if len(args) == 1 {
				if o.PID, err = parsePID(args[0]); err != nil {
					return err
				}
			}
			d, err := session.Diagnose(o, readFilters)
			if err != nil {
				return err
			}
			*code = d.ExitCode
			if asJSON {
				return plain.WriteJSON(os.Stdout, d)
			}
			return writeDiagnosis(os.Stdout, d)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVar(&readFilters, "read-filters", false, "if PID has seccomp filters, stop one thread for a moment to read them")
	c.Flags().StringVarP(&o.Output, "output", "o", session.DefaultOutput, "the trace `FILE` that there would be")
	giveVariable(c.Flags().Lookup("output")) // a recording would take it
	return c
}

func atMostOnePID(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{errors.New("at most one pid can be given")}
	}
	return nil
}

var marks = map[session.Result]string{
	session.Fine: "✓", session.Less: "!", session.Off: "–", session.Unclear: "?", session.Fails: "✗", session.Skipped: " ",
}

// writeDiagnosis prints a line for each check, and below it why and what to do.
func writeDiagnosis(w io.Writer, d *session.Diagnosis) error {
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
	_, err := fmt.Fprintln(w, line(verdict(d)))
	return err
}

func writeCheck(w io.Writer, c session.Check) {
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

func verdict(d *session.Diagnosis) string {
	switch d.Verdict {
	case session.Fails:
		return fmt.Sprintf("an attach would fail with exit code %d: %s", d.ExitCode, d.Cause)
	case session.Unclear:
		return "an attach may work or not: " + d.Cause
	}
	return "an attach would work"
}
