package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
)

// addCollectives adds --collectives.
func addCollectives(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "collectives", "", "`FILE` with regular expressions, one a line: the names of kernels that wait for other GPUs; default: those of known libraries")
}

// parseCollectives reads the file of --collectives; "" is nil.
func parseCollectives(path string) (*collectives.Patterns, error) {
	if path == "" {
		return nil, nil
	}
	p, err := collectives.Open(path)
	if errors.Is(err, collectives.ErrPatterns) {
		return nil, fmt.Errorf("--collectives %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--collectives: %w", err)
	}
	return p, nil
}
