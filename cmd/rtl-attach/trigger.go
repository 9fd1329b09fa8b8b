package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/control"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

func newTrigger() *cobra.Command {
	return &cobra.Command{
		Use:     "trigger PID",
		Short:   "make the flight recorder of PID (--keep-last) write a trace",
		Example: triggerExamples,
		Args:    onePID,
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := ask(args[0], control.Trigger)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(os.Stdout, line(r.File)); err != nil {
				return failure.OutputFailed("the name of the trace", failure.OK, err)
			}
			return nil
		},
	}
}

func newFlush() *cobra.Command {
	return &cobra.Command{
		Use:     "flush PID",
		Short:   "return when all that was recorded of PID until now is in the trace",
		Example: flushExamples,
		Args:    onePID,
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := ask(args[0], control.Flush)
			return err
		},
	}
}

// ask sends a command to the recorder of a process.
func ask(arg, command string) (control.Reply, error) {
	pid, err := parsePID(arg)
	if err != nil {
		return control.Reply{}, err
	}
	return session.Ask(pid, command)
}
