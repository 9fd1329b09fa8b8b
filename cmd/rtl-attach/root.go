package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/session"
)

// version is set by the Makefile.
var version = "dev"

// A usageError is answered with exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run executes the command line and returns the exit code.
func run(args []string) session.ExitCode {
	code := session.OK
	root := newRoot(&code)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return code
	}
	return fail(err)
}

func newRoot(code *session.ExitCode) *cobra.Command {
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
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return defaultsFromEnvironment(c) }
	root.AddCommand(record, newDetach(), newStatus(), newPS(), newDoctor(code), newReport(code), newExport(code))
	complete(root)
	return root
}

// hasVariable marks flags with a default in the environment: those of a recording.
// Of another verb the same name may mean something else.
const hasVariable = "rtl_attach_variable"

func giveVariable(f *pflag.Flag) { f.Annotations = map[string][]string{hasVariable: nil} }

// defaultsFromEnvironment takes flags that were not given from RTL_ATTACH_*.
func defaultsFromEnvironment(c *cobra.Command) error {
	var err error
	opposite := map[string]string{"tree": "no-tree", "no-tree": "tree"}
	given := map[string]bool{}
	c.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := "RTL_ATTACH_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, set := os.LookupEnv(name)
		if _, has := f.Annotations[hasVariable]; !has || given[f.Name] || given[opposite[f.Name]] || !set {
			return
		}
		if e := c.Flags().Set(f.Name, value); e != nil {
			err = usageError{fmt.Errorf("%s: %w", name, e)}
		}
	})
	return err
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command or argument %q", args[0])}
	}
	return nil
}

func onePID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{errors.New("exactly one pid is needed")}
	}
	return nil
}
