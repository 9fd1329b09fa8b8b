package main

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/session"
)

// selectionFlags say which processes are meant: a recording's, and doctor's.
type selectionFlags struct {
	pids         pidList
	name         string
	tree, noTree bool
}

func (f *selectionFlags) addTo(flags *pflag.FlagSet) {
	flags.BoolVar(&f.tree, "tree", true, "the processes below these that hold a GPU, too: a server's workers")
	flags.BoolVar(&f.noTree, "no-tree", false, "without the processes below these")
	flags.StringVar(&f.name, "name", "", "processes whose command line matches `REGEX`; with --tree also those below them")
}

var errNoPID = errors.New("--pid is needed")

func (f *selectionFlags) selection() (session.Selection, error) {
	s := session.Selection{PIDs: f.pids, Tree: f.tree && !f.noTree}
	if len(f.pids) == 0 && f.name == "" {
		return s, errNoPID
	}
	var err error
	if f.name != "" {
		if s.Name, err = regexp.Compile(f.name); err != nil {
			return s, fmt.Errorf("--name %q: %w", f.name, err)
		}
	}
	return s, nil
}
