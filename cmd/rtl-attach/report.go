package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/report"
)

func newReport() *cobra.Command {
	var (
		asJSON  bool
		kernels int
	)
	c := &cobra.Command{
		Use:   "report FILE",
		Short: "the summary of a trace, again; needs no privileges",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("exactly one trace file is needed")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := report.Summarize(args[0], kernels)
			if err != nil {
				return err
			}
			if asJSON {
				return s.WriteJSON(os.Stdout)
			}
			return s.WriteText(os.Stdout)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().IntVar(&kernels, "kernels", kernelsInSummary, "how many kernels to name")
	return c
}
