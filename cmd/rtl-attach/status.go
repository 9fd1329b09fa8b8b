package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/status"
)

func newStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "status PID",
		Short:   "show what rtl-attach has in PID and the processes below it: state, losses, remains of a detach",
		Example: statusExamples,
		Args:    onePID,
		RunE: func(_ *cobra.Command, args []string) error {
			pid, err := parsePID(args[0])
			if err != nil {
				return err
			}
			st, err := status.Inspect(pid, version)
			if err != nil {
				return err
			}
			return writeFound("the status", failure.OK, asJSON, st, writeStatus)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// writeFound writes a command's result to standard output. If that fails, a code other
// than OK stays the exit code.
func writeFound[T any](what string, code failure.ExitCode, asJSON bool, found T, asText func(io.Writer, T) error) error {
	write := asText
	if asJSON {
		write = func(w io.Writer, found T) error { return sanitize.WriteJSON(w, found) }
	}
	if err := write(os.Stdout, found); err != nil {
		return failure.OutputFailed(what, code, err)
	}
	return nil
}

// writeStatus prints the status of a process and of the processes below it.
func writeStatus(w io.Writer, st *status.Status) error {
	err := writeOneStatus(w, st)
	for _, worker := range st.Workers {
		if err == nil {
			err = writeOneStatus(w, worker)
		}
	}
	return err
}

func writeOneStatus(w io.Writer, st *status.Status) error {
	what := ""
	switch {
	case st.Hidden != "":
		what = "cannot be read: " + sanitize.Text(st.Hidden)
	case !st.Resident:
		what = "no payload of rtl-attach is resident"
	}
	if what != "" {
		_, err := fmt.Fprintf(w, "pid %d (%s): %s\n", st.PID, sanitize.Text(st.Command), what)
		return err
	}
	i := st.Inventory
	lines := [][2]string{
		{"state", st.State},
		{"sessions", humanize.Count(st.Sessions)},
		{"last end", st.LastEnd},
		{"recorder", pidOrNone(st.Recorder)},
		{"version", fmt.Sprintf("payload build %s, ABI %d; this tool is %s", st.BuildID, st.ABIVersion, version)},
		{"in the target", fmt.Sprintf("%s (%s more below another tool's), control thread %s, worker %s",
			humanize.Things(i.HooksPatched, "hook"), humanize.Count(i.HooksBuried), pidOrNone(i.ControlThread), pidOrNone(i.Worker))},
		{"", fmt.Sprintf("%s control block, %s ring, %s, %s, profiling on for %s%s",
			humanize.Bytes(i.ControlBytes), humanize.Bytes(i.RingBytes), humanize.Things(i.QueueStates, "queue state"),
			humanize.Things(i.Signals, "signal"), humanize.Things(i.QueuesProfiled, "queue"), copies(i))},
		{"dispatches", fmt.Sprintf("%s published, %s timed, %s lost",
			humanize.Count(st.Counters["dispatches"]), humanize.Count(st.Counters["timed_pool"]+st.Counters["timed_app"]),
			humanize.Things(st.Counters["records_lost"], "record"))},
		{"last error", sanitize.Text(st.Error)},
	}
	fmt.Fprintf(w, "pid %d (%s)\n", st.PID, sanitize.Text(st.Command))
	for _, l := range lines {
		if l[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "  %-14s %s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

func copies(i *status.Inventory) string {
	if !i.CopiesProfiled {
		return ""
	}
	return " and for copies"
}

func pidOrNone(pid uint32) string {
	if pid == 0 {
		return "none"
	}
	return fmt.Sprint(pid)
}
