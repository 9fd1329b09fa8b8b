package discover

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// Ranked is a process with its rank.
type Ranked struct {
	Process
	Rank *int // nil: it has none
}

// Text returns the rank for users.
func (r Ranked) Text() string {
	if r.Rank == nil {
		return "it has no rank"
	}
	return fmt.Sprintf("its rank is %d", *r.Rank)
}

// selectRanks moves the targets whose rank is not selected to c.Ranks. It returns a
// *failure.Error if none is left.
func (s Selection) selectRanks(c *Choice) error {
	if !s.Ranks.OfRanks() {
		return nil
	}
	c.Targets = slices.DeleteFunc(c.Targets, func(p Process) bool {
		one := Ranked{p, RankOfPID(p.PID)}
		if one.Rank != nil && s.Ranks.HasRank(int64(*one.Rank)) {
			return false
		}
		c.Ranks = append(c.Ranks, one)
		return true
	})
	if len(c.Targets) > 0 {
		return nil
	}
	var there []string
	for _, one := range c.Ranks[:min(len(c.Ranks), mostNamed)] {
		there = append(there, fmt.Sprintf("pid %d: %s", one.PID, one.Text()))
	}
	if more := len(c.Ranks) - mostNamed; more > 0 {
		there = append(there, fmt.Sprintf("and %d more", more))
	}
	return &failure.Error{
		What:   "no process with a selected rank was found",
		Cause:  strings.Join(there, "; "),
		Fix:    "a rank that rtl-attach ps shows, or no --rank",
		Target: failure.Untouched, Code: failure.Usage, Err: errNoRank,
	}
}

// mostNamed limits the processes in a message.
const mostNamed = 16

var errNoRank = errors.New("no process has such a rank")

// known returns the processes that held a GPU before the recording.
func (c *Choice) known() []Process {
	known := slices.Clone(c.Targets)
	for _, one := range c.Ranks {
		known = add(known, one.Process)
	}
	return known
}
