package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variablePrefix begins the names of the environment variables that hold flag defaults.
const variablePrefix = "RTL_ATTACH_"

// hasVariable annotates the flags that take a default from the environment: the
// flags of a recording. Other commands use the same names with other meanings.
const hasVariable = "rtl_attach_variable"

func giveVariable(f *pflag.Flag) { annotate(f, hasVariable) }

// annotate adds an annotation to a flag.
func annotate(f *pflag.Flag, what string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[what] = []string{""}
}

func variableOf(f *pflag.Flag) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// defaultsFromEnvironment sets each flag that the command line leaves out from its
// RTL_ATTACH_* variable, unless that is empty.
func defaultsFromEnvironment(c *cobra.Command) error {
	var err error
	opposite := map[string]string{"tree": "no-tree", "no-tree": "tree"}
	given := map[string]bool{}
	c.Flags().Visit(func(f *pflag.Flag) {
		given[f.Name] = true
		if of, is := aliasOf[f.Name]; is {
			given[of] = true
		}
	})
	c.Flags().VisitAll(func(f *pflag.Flag) {
		value := os.Getenv(variableOf(f))
		if _, has := f.Annotations[hasVariable]; !has || given[f.Name] || given[opposite[f.Name]] || value == "" {
			return
		}
		for _, one := range valuesOf(f, value) {
			if e := c.Flags().Set(f.Name, one); e != nil {
				err = usageError{fmt.Errorf("%s: %w", variableOf(f), e)}
			}
		}
	})
	return err
}

// valuesOf returns what a variable sets a flag to: of a flag with a list of values, each line is one.
func valuesOf(f *pflag.Flag, value string) []string {
	if _, several := f.Value.(pflag.SliceValue); !several {
		return []string{value}
	}
	return slices.DeleteFunc(strings.Split(value, "\n"), func(line string) bool { return line == "" })
}

// A warner prints warnings.
type warner interface{ Warn(text string) }

// warnOfVariables warns of each variable in environ that has our prefix and
// belongs to no flag of a recording.
func warnOfVariables(to warner, recording *pflag.FlagSet, environ []string) {
	var known []string
	isKnown := map[string]bool{}
	recording.VisitAll(func(f *pflag.Flag) {
		if _, has := f.Annotations[hasVariable]; has {
			known, isKnown[variableOf(f)] = append(known, variableOf(f)), true
		}
	})
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, variablePrefix) && !isKnown[name] {
			to.Warn("environment variable " + name + " is ignored: no flag has this name" + orMeant(nearest(name, known)))
		}
	}
}

func orMeant(meant string) string {
	if meant == "" {
		return ""
	}
	return "; did you mean " + meant + "?"
}
