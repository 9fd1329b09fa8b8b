package rocprof

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// SeveralWords annotates a flag that takes all words up to the next flag, as rocprofv3's do.
const SeveralWords = "rocprofv3_several_words"

// Rewrite returns a command line in which each flag has its value behind a "=": rocprofv3 also takes
// "--hip-trace off" and "--output-format csv json". flags are the flags of the command. What follows a "--" stays
// as it is.
func Rewrite(args []string, flags *pflag.FlagSet) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		f, value := flagOf(arg, flags)
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case f == nil:
		case isTruth(f) && value != "":
			arg = truth(arg, value)
		case isTruth(f):
			if _, ok := ParseTruth(next); ok {
				arg, i = truth(arg+"=", next), i+1
			}
		case f.Annotations[SeveralWords] != nil:
			var words []string
			for i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				words, i = append(words, args[i+1]), i+1
			}
			if value != "" {
				words = slices.Insert(words, 0, value)
			}
			arg = name(arg) + "=" + strings.Join(words, " ")
		case value == "" && !strings.Contains(arg, "=") && i+1 < len(args): // its value may look like a flag
			out, i = append(out, arg), i+1
			arg = next
		}
		out = append(out, arg)
	}
	return out
}

// flagOf returns the flag of an argument, and what follows its "="; nil: it is no flag of these.
func flagOf(arg string, flags *pflag.FlagSet) (f *pflag.Flag, value string) {
	switch {
	case strings.HasPrefix(arg, "--"):
		var long string
		long, value, _ = strings.Cut(arg[2:], "=")
		return flags.Lookup(long), value
	case len(arg) == 2 && arg[0] == '-' && arg[1] != '-':
		return flags.ShorthandLookup(arg[1:]), ""
	}
	return nil, ""
}

func isTruth(f *pflag.Flag) bool { return f.NoOptDefVal == "true" }

// truth returns arg with the value as pflag reads it, if it is one of rocprofv3's words.
func truth(arg, value string) string {
	is, ok := ParseTruth(value)
	switch {
	case !ok:
		return arg
	case is:
		return name(arg) + "=true"
	}
	return name(arg) + "=false"
}

func name(arg string) string {
	long, _, _ := strings.Cut(arg, "=")
	return long
}
