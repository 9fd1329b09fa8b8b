package main

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/discover"
)

// selectionFlags are the flags of record and doctor that select processes.
type selectionFlags struct {
	pids         pidList
	name         string
	tree, noTree bool
	yes          bool
	ranks        filterFlags
}

func (f *selectionFlags) addTo(flags *pflag.FlagSet) {
	flags.BoolVar(&f.tree, "tree", true, "also record GPU-using descendants: a server's workers")
	flags.BoolVar(&f.noTree, "no-tree", false, "leave descendants out")
	flags.BoolVar(&f.yes, "yes", false, "select all servers below a pid, if there are several")
	f.ranks.addRank(flags, fmt.Sprintf(rankUsage, "select"))
	flags.StringVar(&f.name, "name", "", "select processes whose command line matches `REGEX`, and their descendants")
}

var errNoPID = errors.New("--pid is needed")

func (f *selectionFlags) selection() (discover.Selection, error) {
	s := discover.Selection{PIDs: f.pids, Tree: f.tree && !f.noTree, Yes: f.yes}
	if len(f.pids) == 0 && f.name == "" {
		return s, errNoPID
	}
	var err error
	if s.Ranks, err = f.ranks.filter(); err != nil {
		return s, err
	}
	if f.name != "" {
		if s.Name, err = regexp.Compile(f.name); err != nil {
			return s, fmt.Errorf("--name %q: %w", f.name, err)
		}
	}
	return s, nil
}
