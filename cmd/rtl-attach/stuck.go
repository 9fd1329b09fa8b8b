package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/stuck"
)

// Limits of the time between the two looks.
const (
	stuckShortest = 50 * time.Millisecond
	stuckLongest  = 10 * time.Minute
)

func newStuck() *cobra.Command {
	var (
		which    selectionFlags
		asJSON   bool
		all      bool
		duration time.Duration
		names    string // a file of collectives
	)
	c := &cobra.Command{
		Use:     "stuck PID[,PID…]",
		Short:   "show what the queues and threads of PID wait for; reads only, stops nothing",
		Long:    stuckHelp,
		Example: stuckExamples,
		Args:    atMostOnePID,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, pids := range args {
				if err := which.pids.Set(pids); err != nil {
					return err
				}
			}
			selection, err := which.selection()
			switch {
			case errors.Is(err, errNoPID):
				return usageError{errors.New("a pid is needed, or several with commas between them")}
			case err != nil:
				return usageError{err}
			case duration < stuckShortest || duration > stuckLongest:
				return usageError{errors.New("--duration is the time between two looks: from 50ms to 10m")}
			}
			patterns, err := parseCollectives(names)
			if err != nil {
				return usageError{err}
			}
			pids, err := discover.ForReading(selection)
			if err != nil {
				return err
			}
			r, err := stuck.Inspect(pids, duration, version, patterns)
			if err != nil {
				return err
			}
			return writeFound("what was found", failure.OK, asJSON, r, stuckWriter{all}.write)
		},
	}
	which.addTo(c.Flags())
	c.Flags().DurationVarP(&duration, "duration", "d", time.Second, "`DURATION` between the two looks")
	addCollectives(c.Flags(), &names)
	c.Flags().BoolVar(&all, "all", false, "also queues without work and threads outside of ROCm, and whole stacks")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON; it has everything")
	return c
}
