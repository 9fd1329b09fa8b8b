package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// version is the tool's version; the Makefile sets it.
var version = "dev"

// usageError makes the tool exit with code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run executes the command line and returns the exit code.
func run(args []string) failure.ExitCode {
	code := failure.OK
	root := newRoot(&code)
	recording, _, _ := root.Find([]string{"record"}) // the root has its flags, too
	root.SetArgs(rewriteArguments(args, recording.Flags()))
	command, err := root.ExecuteC()
	if err == nil {
		return code
	}
	return fail(command, err)
}

func newRoot(code *failure.ExitCode) *cobra.Command {
	record := newRecord(code)
	root := &cobra.Command{
		Use:           "rtl-attach --pid N [--duration 5s]",
		Short:         "GPU timeline of a running ROCm process",
		Long:          longHelp,
		Example:       examples,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          record.RunE,
	}
	root.Flags().AddFlagSet(record.Flags())
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return defaultsFromEnvironment(c) }
	root.AddCommand(record, newRun(code), newDetach(), newTrigger(), newFlush(), newStatus(), newStuck(), newPS(), newAvail(), newDoctor(code), newReport(code), newExport(code), newVersion())
	complete(root)
	writeFlagsPlainly(root)
	return root
}

func onePID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{errors.New("exactly one pid is needed")}
	}
	return nil
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version, as --version does",
		Example: versionExamples,
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(os.Stdout, "%s version %s\n", c.Root().Name(), c.Root().Version)
			if err != nil {
				return failure.OutputFailed("the version", failure.OK, err)
			}
			return nil
		},
	}
}
