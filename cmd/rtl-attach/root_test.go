package main

import (
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// TestDefaultsFromEnvironment: only a recording's flags, and doctor's --output, take
// defaults from the environment.
func TestDefaultsFromEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"OUTPUT": "from-environment", "KERNELS": "3", "JSON": "true", "QUIET": "true", "DURATION": "", "VERSION": "0.3", "HELP": "me",
	} {
		t.Setenv("RTL_ATTACH_"+name, value)
	}
	var code failure.ExitCode
	for verb, want := range map[string]map[string]bool{
		"":       {"output": true, "json": true, "quiet": true, "duration": false},
		"record": {"output": true, "json": true, "quiet": true},
		"doctor": {"output": true, "json": false},
		"export": {"output": false, "quiet": false},
		"report": {"kernels": false, "json": false},
		"detach": {"quiet": false},
		"status": {"json": false},
	} {
		root := newRoot(&code)
		c, _, err := root.Find([]string{verb})
		if err != nil {
			t.Fatal(err)
		}
		c.InitDefaultHelpFlag()
		c.InitDefaultVersionFlag()
		if err := root.PersistentPreRunE(c, nil); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		for flag, taken := range want {
			if c.Flags().Changed(flag) != taken {
				t.Errorf("%s --%s is taken from the environment: %v", verb, flag, !taken)
			}
		}
	}
}

// TestSeveralFromEnvironment: each line of a variable is a value of a flag that may be given again.
func TestSeveralFromEnvironment(t *testing.T) {
	t.Setenv("RTL_ATTACH_SET", "RTL_RECORDER_TIMEOUT_MS=60000\nRTL_HSA_LIBRARY=/a b,c\n")
	t.Setenv("RTL_ATTACH_OUTPUT", "a\nb")
	var code failure.ExitCode
	root := newRoot(&code)
	if err := root.PersistentPreRunE(root, nil); err != nil {
		t.Fatal(err)
	}
	settings, err := root.Flags().GetStringArray("set")
	if want := []string{"RTL_RECORDER_TIMEOUT_MS=60000", "RTL_HSA_LIBRARY=/a b,c"}; err != nil || !slices.Equal(settings, want) {
		t.Errorf("--set %q: %v", settings, err)
	}
	if output := root.Flags().Lookup("output").Value.String(); output != "a\nb" {
		t.Errorf("--output %q", output)
	}
}
