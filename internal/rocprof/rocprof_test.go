package rocprof

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/kind/all"
)

func flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Bool("hip-trace", false, "")
	f.BoolP("sys-trace", "s", false, "")
	f.StringP("output", "o", "", "")
	f.StringP("output-format", "f", "", "")
	f.Lookup("output-format").Annotations = map[string][]string{SeveralWords: {""}}
	return f
}

// TestRewrite: rocprofv3's forms of a command line, and pflag's.
func TestRewrite(t *testing.T) {
	for line, want := range map[string]string{
		"":                                  "",
		"-p 5 -d 5s":                        "-p 5 -d 5s",
		"--hip-trace":                       "--hip-trace",
		"--hip-trace off -p 5":              "--hip-trace=false -p 5",
		"--hip-trace=Yes":                   "--hip-trace=true",
		"--hip-trace=maybe":                 "--hip-trace=maybe",
		"--hip-trace maybe":                 "--hip-trace maybe",
		"-s N":                              "-s=false",
		"-o on --hip-trace 1":               "-o on --hip-trace=true",
		"-o --hip-trace on":                 "-o --hip-trace on",
		"--output=x on":                     "--output=x on",
		"--output-format csv json -o x":     "--output-format=csv json -o x",
		"--output-format=csv json":          "--output-format=csv json",
		"-f csv":                            "-f=csv",
		"--output-format":                   "--output-format=",
		"--hip-trace -- --hip-trace on":     "--hip-trace -- --hip-trace on",
		"--output-format csv -- ./a.out on": "--output-format=csv -- ./a.out on",
	} {
		if got := strings.Join(Rewrite(strings.Fields(line), flags()), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// FuzzRewrite: nothing is lost, and what is rewritten stays so.
func FuzzRewrite(f *testing.F) {
	f.Add("--hip-trace on -f csv json -- x on")
	f.Fuzz(func(t *testing.T, line string) {
		once := Rewrite(strings.Fields(line), flags())
		if again := Rewrite(once, flags()); len(again) > len(once) {
			t.Errorf("%q: %q, then %q", line, once, again)
		}
	})
}

// TestVariables: the variables are those that rocprofv3 sets.
func TestVariables(t *testing.T) {
	option := func(name string) Option {
		i := slices.IndexFunc(Options, func(o Option) bool { return o.Name == name })
		if i < 0 {
			t.Fatalf("no option %s", name)
		}
		return Options[i]
	}
	for _, c := range []struct{ name, uses, want string }{
		{"pmc", "A B", "ROCPROF_COUNTER_COLLECTION=1 ROCPROF_COUNTERS=pmc: A B"},
		{"pmc", "A|B C", "ROCPROF_COUNTER_COLLECTION=1 ROCPROF_COUNTER_GROUPS=pmc: A\npmc: B C"},
		{"pmc", "", ""},
		{"spm", "A,B", "ROCPROFILER_SPM_BETA_ENABLED=1 ROCPROF_SPM_COUNTER_COLLECTION=1 ROCPROF_SPM_COUNTERS=spm: A B"},
		{"att", "true", "ROCPROF_ADVANCED_THREAD_TRACE=1"},
		{"att-buffer-size", "0x1000", "ROCPROF_ATT_PARAM_BUFFER_SIZE=0x1000"},
		{"kfd-trace", "true", "ROCPROF_KFD_PAGE_MIGRATION_TRACE=1 ROCPROF_KFD_PAGE_MAPPING_TRACE=1 ROCPROF_KFD_QUEUE_TRACE=1 ROCPROF_KFD_DROPPED_EVENTS_TRACE=1"},
		{"mangled-kernels", "true", "ROCPROF_DEMANGLE_KERNELS=0"},
		{"disable-signal-handlers", "true", "ROCPROF_SIGNAL_HANDLERS=0"},
		{"minimum-output-data", "2", "ROCPROF_MINIMUM_OUTPUT_BYTES=2048"},
		{"minimum-output-data", "x", "unknown"},
		{"ompt-trace", "", "ROCPROF_OMPT_TRACE=1"},
		{"ompt-trace", "off", ""},
		{"ompt-trace", "parallel task", "ROCPROF_OMPT_TRACE=1 ROCPROF_OMPT_TRACE_OPERATIONS=parallel,task"},
		{"attach-sync-output", "false", "ROCPROF_ATTACH_OUTPUT_GENERATION_SYNC=0"},
		{"list-avail", "true", "unknown"},
	} {
		vars, ok := Given{option(c.name), strings.Split(c.uses, "|")}.Variables()
		var got []string
		for _, v := range vars {
			got = append(got, v.Name+"="+v.Value)
		}
		text := strings.Join(got, " ")
		if !ok {
			text = "unknown"
		}
		if text != c.want {
			t.Errorf("--%s %q: %q, want %q", c.name, c.uses, text, c.want)
		}
	}
}

// TestKinds: each kind of record has its variable.
func TestKinds(t *testing.T) {
	if vars := ForKinds(all.Kinds); len(vars) != len(all.Kinds)+1 {
		t.Errorf("%d kinds, and %v", len(all.Kinds), vars)
	}
}

// TestOptions: each option has one name, and one that is refused a reason.
func TestOptions(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Options {
		for _, name := range []string{o.Name, fmt.Sprintf("-%s", o.Short)} {
			if seen[name] && name != "-" {
				t.Errorf("%s: twice", name)
			}
			seen[name] = true
		}
		if o.Why == "" && o.Fix != "" {
			t.Errorf("--%s: a fix without a reason", o.Name)
		}
	}
}
