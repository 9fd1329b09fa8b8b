package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

var (
	optionalValue = regexp.MustCompile(`(--[a-z-]+) ([A-Z]+)\[="?[^]"]*"?\]`)
	quotedDefault = regexp.MustCompile(`\(default "([^"]*)"\)`)
)

// writeFlagsPlainly has the help of root and its commands write flags as people write them: --csv[=TABLE],
// where pflag writes --csv TABLE[="kernels"].
func writeFlagsPlainly(root *cobra.Command) {
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		var text bytes.Buffer
		out := c.OutOrStderr()
		c.SetOut(&text)
		err := usage(c)
		c.SetOut(out)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(out, plainFlags(text.String()))
		return err
	})
}

// plainFlags rewrites flags in a usage text. The columns stay aligned.
func plainFlags(text string) string {
	text = optionalValue.ReplaceAllStringFunc(text, func(flag string) string {
		plain := optionalValue.ReplaceAllString(flag, "$1[=$2]")
		return plain + strings.Repeat(" ", len(flag)-len(plain))
	})
	return quotedDefault.ReplaceAllString(text, "(default $1)")
}
