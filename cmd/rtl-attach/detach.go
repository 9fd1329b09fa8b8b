package main

import (
	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/session"
)

func newDetach() *cobra.Command {
	var (
		quiet, verbose, yes bool
		via                 string
	)
	c := &cobra.Command{
		Use:     "detach PID",
		Short:   "end the session on PID, from any shell; works after its recorder has died",
		Example: detachExamples,
		Args:    onePID,
		RunE: func(_ *cobra.Command, args []string) error {
			pid, err := parsePID(args[0])
			if err != nil {
				return err
			}
			if via != "" {
				return detachTool(pid, via, newUI(quiet, verbose))
			}
			return session.Detach(pid, yes, newUI(quiet, verbose))
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "detach from all servers below PID, if there are several")
	c.Flags().StringVar(&via, "via", "", "detach AMD's tool by the `PROTOCOL` rocprofiler-register, which a recorder that is gone has left active")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only errors")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print each step in the target")
	return c
}
