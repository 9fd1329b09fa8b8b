package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
)

// checkTraceName refuses a template that cannot name a trace, whatever the process.
func checkTraceName(template string) error {
	placeholder := preflight.UnknownPlaceholder(template)
	switch {
	case template == "":
		return errors.New("--output is empty: a file's name is needed")
	case template == export.Stdout:
		return errors.New("--output \"-\": a trace cannot be written to standard output; rtl-attach export can")
	case placeholder != "":
		return fmt.Errorf("--output %q: %s is not a placeholder: %%p is the pid, %%h the host, %%t the time, %%%% a percent sign", template, placeholder)
	case isFolder(template):
		return fmt.Errorf("--output %q is a folder: -o FILE", template)
	}
	return nil
}

// isFolder reports whether path is a folder, or ends in a slash.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return strings.HasSuffix(path, "/") || err == nil && info.IsDir()
}

func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// areFiles refuses folders where traces are needed.
func areFiles(traces []string) error {
	for _, trace := range traces {
		if isFolder(trace) {
			return fmt.Errorf("%s is a folder: a trace file is needed", trace)
		}
	}
	return nil
}
