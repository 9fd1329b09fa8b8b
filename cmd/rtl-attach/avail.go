package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rtl-attach/rtl-attach/internal/avail"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

// availFlags select a part of what can be recorded.
type availFlags struct {
	kind     string
	settings bool
	asJSON   bool
}

func newAvail() *cobra.Command {
	var f availFlags
	c := &cobra.Command{
		Use:   "avail [PID | FUNCTION]",
		Short: "list what can be recorded: kinds, functions, views, settings; or what of PID, which it does not stop",
		Long: `avail lists what this version can record: the kinds of record with their flags, the
sets and modes. With the name of a function, or a pattern such as 'hipMemcpy*', it
lists the functions with their arguments: --operations takes the same names. With a
pid it reports what can be recorded of that process, and why not the rest. It stops
nothing and writes nothing.`,
		Example: availExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{errors.New("at most one argument: a pid, or a function's name or pattern")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return f.run(strings.Join(args, "")) },
	}
	c.Flags().StringVar(&f.kind, "kind", "", "one `KIND` with its views, columns and functions: its flag or its name")
	c.Flags().BoolVar(&f.settings, "settings", false, "the settings that --set takes")
	c.Flags().BoolVar(&f.asJSON, "json", false, "as JSON")
	return c
}

func (f *availFlags) run(argument string) error {
	if argument != "" && (f.kind != "" || f.settings) || f.kind != "" && f.settings {
		return usageError{errors.New("a pid, a function, --kind or --settings: one of them")}
	}
	if argument != "" && strings.Trim(argument, "-0123456789") == "" {
		return f.process(argument)
	}
	c, err := avail.List(version)
	if err != nil {
		return err
	}
	const what = "what is available"
	switch {
	case argument != "":
		return f.functions(c, argument)
	case f.kind != "":
		k, known := c.KindNamed(f.kind)
		if !known {
			return usageError{mistyped{fmt.Errorf("--kind %q: no such kind of record", f.kind), nearestKind(c, f.kind)}}
		}
		return writeFound(what, failure.OK, f.asJSON, k, writeKind)
	case f.settings:
		return writeFound(what, failure.OK, f.asJSON, c.Settings, writeSettings)
	}
	return writeFound(what, failure.OK, f.asJSON, c, writeCatalogue)
}

func (f *availFlags) process(argument string) error {
	pid, err := parsePID(argument)
	if err != nil {
		return err
	}
	p, err := avail.Inspect(pid, version)
	if err != nil {
		return err
	}
	return writeFound("what is available", failure.OK, f.asJSON, p, writeProcess)
}

func (f *availFlags) functions(c *avail.Catalogue, pattern string) error {
	found, err := c.Matching(pattern)
	switch {
	case err != nil:
		return usageError{fmt.Errorf("%q is not a pattern such as hipMemcpy*", pattern)}
	case len(found) == 0:
		return usageError{mistyped{fmt.Errorf("no function of the APIs is named %q", pattern), functionMeant(pattern)}}
	}
	return writeFound("the functions", failure.OK, f.asJSON, found, writeFunctions)
}

func nearestKind(c *avail.Catalogue, name string) string {
	var known []string
	for _, k := range c.Kinds {
		known = append(known, k.Flag, k.Name)
	}
	return nearest(strings.TrimPrefix(name, "--"), known)
}

// columns aligns the cells of a listing.
func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

func writeCatalogue(w io.Writer, c *avail.Catalogue) error {
	table := columns(w)
	fmt.Fprintln(table, "FLAG\tRECORDS\tFUNCTIONS\tVIEWS\tEXPORT -f")
	for _, k := range c.Kinds {
		functions := "-"
		if len(k.Functions) > 0 {
			functions = humanize.Count(len(k.Functions))
		}
		fmt.Fprintf(table, "--%s\t%s\t%s\t%s\t%s\n", k.Flag, k.Records, functions, viewNames(k.Views), cmp.Or(k.Export, "-"))
	}
	fmt.Fprintln(table, "\nSET\tKINDS")
	for _, s := range c.Sets {
		flag := "--" + s.Name
		if s.Short != "" {
			flag = "-" + s.Short + ", " + flag
		}
		fmt.Fprintf(table, "%s\t%s\n", flag, kindList(s.Kinds, len(c.Kinds)))
	}
	for _, m := range c.Modes {
		fmt.Fprintf(table, "--mode %s\t%s\n", m.Name, kindList(m.Kinds, len(c.Kinds)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nKernels are always recorded. More: avail --kind FLAG, avail 'hipMemcpy*', avail --settings, avail PID")
	return err
}

func kindList(kinds []string, all int) string {
	switch len(kinds) {
	case 0:
		return "kernels only"
	case all:
		return "all"
	}
	return strings.Join(kinds, " ")
}

func viewNames(views []avail.View) string {
	var names []string
	for _, v := range views {
		if !strings.HasPrefix(v.Name, "rocpd_") && !strings.HasPrefix(v.Name, "rtl_") { // other programs' names, and parts of others
			names = append(names, v.Name)
		}
	}
	return strings.Join(names, " ")
}

func writeKind(w io.Writer, k *avail.Kind) error {
	table := columns(w)
	for _, l := range [][2]string{
		{"flag", "--" + k.Flag},
		{"name", k.Name + " (RTL_TRACE, kinds in JSON)"},
		{"one record is", "a " + k.Records},
		{"tables", strings.Join(k.Tables, " ")},
		{"report --csv", strings.Join(k.ReportCSV, " ")},
		{"export -f", k.Export},
		{"rocprofv3 JSON", k.JSONArray},
	} {
		if l[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", l[0], l[1])
		}
	}
	for _, v := range k.Views {
		fmt.Fprintf(table, "view %s\t%s\n", v.Name, strings.Join(v.Columns, " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return writeFunctions(w, k.Functions)
}

// remarks follow the functions that the flag of their kind does not record.
var remarks = map[string]string{
	avail.OnRequest: "  // frequent: if --operations names it, or by --hsa-signal-trace",
	avail.Never:     "  // never: intercepting it would harm the process",
}

func writeFunctions(w io.Writer, functions []avail.Function) error {
	for i := range functions {
		f := &functions[i]
		if _, err := fmt.Fprintf(w, "%s%s\n", f.Prototype(), remarks[f.Recorded]); err != nil {
			return err
		}
	}
	return nil
}

func writeSettings(w io.Writer, settings []avail.Setting) error {
	table := columns(w)
	fmt.Fprintln(table, "NAME\tDEFAULT\tVALUES\tMEANING")
	for _, s := range settings {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", s.Name, cmp.Or(s.Default, "-"), s.Values, s.About)
	}
	return table.Flush()
}
