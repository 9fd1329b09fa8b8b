package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mistyped is an error of usage with a suggestion.
type mistyped struct {
	error
	meant string // what the user can type instead; "": nothing similar
}

func (m mistyped) Unwrap() error { return m.error }

// instead is an error of usage with a fix of its own.
type instead struct {
	error
	fix string
}

func (i instead) Unwrap() error { return i.error }

// fixOf returns the fix of a command's usage error.
func fixOf(command *cobra.Command, err error) string {
	var (
		m mistyped
		i instead
	)
	if errors.As(err, &i) {
		return i.fix
	}
	if errors.As(err, &m) && m.meant != "" {
		return "did you mean " + m.meant + "?"
	}
	return "see " + command.CommandPath() + " --help"
}

// nearest returns the known names that are at most two edits away from name or
// begin with it, joined by "or"; "" if there are none. Cobra compares them, as it
// does for commands.
func nearest(name string, known []string) string {
	const edits = 2
	c := &cobra.Command{SuggestionsMinimumDistance: edits}
	for _, k := range known {
		c.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	return strings.Join(c.SuggestionsFor(name), " or ")
}

// flagError makes err a usage error, with a suggestion for an unknown flag and for a name
// where a pid is needed.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return usageError{mistyped{err, nameMeant(c, invalid)}}
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return usageError{err}
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	return usageError{mistyped{err, nearest("--"+unknown.GetSpecifiedName(), known)}}
}

var word = regexp.MustCompile(`^[A-Za-z_./][\w./-]*$`)

// nameMeant returns the flag that takes a word where --pid or -d does not; "": it was no word,
// or the command has no such flag.
func nameMeant(c *cobra.Command, invalid *pflag.InvalidValueError) string {
	// rocprofv3's -d is a folder.
	if invalid.GetFlag().Name == "duration" && c.Flags().Lookup("output-directory") != nil && strings.Contains(invalid.GetValue(), "/") {
		return "--output-directory " + invalid.GetValue()
	}
	if invalid.GetFlag().Name != "pid" || c.Flags().Lookup("name") == nil || !word.MatchString(invalid.GetValue()) {
		return ""
	}
	return "--name " + invalid.GetValue()
}

// noArguments refuses arguments: a pid without its flag, or an unknown command.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	m := mistyped{error: fmt.Errorf("unknown command or argument %q", args[0])}
	var pids pidList
	switch {
	case c.ArgsLenAtDash() == 0: // as for rocprofv3 -- PROGRAM
		m.meant = c.Root().Name() + " run -- " + strings.Join(args, " ")
	case c.Flags().Lookup("pid") != nil && pids.Set(args[0]) == nil:
		m.meant = c.CommandPath() + " --pid " + pids.String()
	case !c.HasParent():
		m.meant = nearest(args[0], commandNames(c))
	}
	return usageError{m}
}

func commandNames(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}
