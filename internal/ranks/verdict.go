package ranks

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// The evidence for a late rank.
const (
	leastCompared = 20  // collectives of all ranks of a group with a known last rank
	leastShare    = 0.5 // of the time that ranks of its group waited for a last one, that they waited for it
	deviations    = 4   // and it is last more often than by chance
	mostAmbiguous = 20  // no rank is said not to be late if more than one in so many kernels may be of several groups
	leastWait     = 1.0 // percent of their time that the other GPUs waited for it
)

// addServers adds the verdict of each host.
func (a *Analysis) addServers(r *Result) {
	var hosts []string
	for _, one := range r.Ranks {
		if !slices.Contains(hosts, one.Host) {
			hosts = append(hosts, one.Host)
		}
	}
	for _, host := range hosts {
		s := Server{Host: host}
		s.judge(r)
		r.Servers = append(r.Servers, s)
	}
}

// lateness is the rank that a group's collectives had last most often.
type lateness struct {
	rank     int
	last, in int64 // of the group's collectives with a known last rank
}

// judge says which rank is late, if the evidence is enough.
func (s *Server) judge(r *Result) {
	ranks := 0
	for _, one := range r.Ranks {
		if one.Host == s.Host {
			ranks++
		}
	}
	var best *lateness // with the largest wait
	var most *GroupResult
	for i := range r.Groups {
		g := &r.Groups[i]
		if r.Ranks[g.Ranks[0]].Host != s.Host {
			continue
		}
		if most == nil || g.Matched > most.Matched {
			most = g
		}
		if l := g.late(); l != nil && (best == nil || r.Ranks[l.rank].Others > r.Ranks[best.rank].Others) {
			best = l
		}
	}
	switch {
	case ranks < 2:
		s.Verdict = "not said: the trace has the collectives of one rank only; record all ranks together, with the front end's pid or --name"
	case most == nil && r.Ambiguous > 0:
		s.Verdict = "not said: collectives of these ranks end together, but may be of several groups in step; a recording from the begin with --rccl-trace (run) says who is in a group"
	case most == nil:
		s.Verdict = fmt.Sprintf("not said: no kernels of collectives of the %s run at the same time and end together", humanize.Things(ranks, "rank"))
	case most.Matched < leastCompared:
		s.Verdict = fmt.Sprintf("not said: only %s of all ranks of a group, and %d are needed", humanize.Things(most.Matched, "collective"), leastCompared)
	case most.Unmatched > most.Matched*int64(len(most.Ranks)):
		s.Verdict = fmt.Sprintf("not said: the ranks' collectives differ: %s are in no collective of all ranks, %s are", humanize.Things(most.Unmatched, "kernel"), humanize.Count(most.Matched*int64(len(most.Ranks))))
	case r.Ambiguous > most.Matched*int64(len(most.Ranks)) || best == nil && r.Ambiguous*mostAmbiguous > most.Matched*int64(len(most.Ranks)):
		s.Verdict = fmt.Sprintf("not said: %s of collectives may be of several groups that end together; a recording from the begin with --rccl-trace (run) says who is in a group", humanize.Things(r.Ambiguous, "kernel"))
	case best == nil:
		s.Known = true
		s.Verdict = "no rank is late: " + r.mostOften(most)
	case r.Ranks[best.rank].Others < leastWait:
		s.Known = true
		s.Verdict = fmt.Sprintf("no rank is late: %s, but the other GPUs waited only %s of the window for it", r.lastText(best), humanize.Percent(r.Ranks[best.rank].Others))
	default:
		s.Known, s.Late = true, &best.rank
		s.Verdict = r.lateText(best)
	}
}

// late returns the rank that is last more often than by chance; nil: none is, or there is too little to compare.
func (g *GroupResult) late() *lateness {
	last := g.lastBy()
	known := int64(0)
	for _, n := range last {
		known += n
	}
	if known < leastCompared || g.Unmatched > g.Matched*int64(len(g.Ranks)) {
		return nil
	}
	n, p := float64(known), 1/float64(len(g.Ranks))
	least := n*p + deviations*math.Sqrt(n*p*(1-p))
	waits, allNS := map[int]int64{}, int64(0)
	for _, s := range g.Sums {
		for rank, ns := range s.lateBy {
			waits[int(rank)] = traceread.Sum(waits[int(rank)], ns)
			allNS = traceread.Sum(allNS, ns)
		}
	}
	for _, rank := range g.Ranks {
		if float64(last[rank]) >= least && float64(waits[rank]) >= leastShare*float64(allNS) {
			return &lateness{rank: rank, last: last[rank], in: known}
		}
	}
	return nil
}

// lastBy returns how often each rank was last.
func (g *GroupResult) lastBy() map[int]int64 {
	by := map[int]int64{}
	for _, s := range g.Sums {
		for rank, n := range s.lastBy {
			by[int(rank)] += n
		}
	}
	return by
}

// name returns a rank's name for users.
func (r *RankResult) name() string {
	if r.Rank != nil {
		return fmt.Sprintf("GPU %d (rank %d, pid %d)", r.GPU, *r.Rank, r.PID)
	}
	return fmt.Sprintf("GPU %d (pid %d)", r.GPU, r.PID)
}

func (r *Result) lastText(l *lateness) string {
	one := &r.Ranks[l.rank]
	return fmt.Sprintf("%s is last in %s of %s collectives with a skew, by %s (median)", one.name(), humanize.Count(l.last), humanize.Count(l.in), humanize.Duration(time.Duration(one.LateP50)))
}

func (r *Result) lateText(l *lateness) string {
	one := &r.Ranks[l.rank]
	others := len(r.peers(l.rank))
	who := fmt.Sprintf("the other %d GPUs", others)
	if others == 1 {
		who = "the other GPU"
	}
	return fmt.Sprintf("%s is late: last in %s of %s collectives with a skew, by %s (median)%s; %s waited %s of the window for it",
		one.name(), humanize.Count(l.last), humanize.Count(l.in), humanize.Duration(time.Duration(one.LateP50)), one.insteadText(), who, humanize.Percent(one.Others))
}

// peers returns the other ranks of a rank's groups.
func (r *Result) peers(rank int) map[int]bool {
	all := map[int]bool{}
	for _, g := range r.Groups {
		if slices.Contains(g.Ranks, rank) {
			for _, other := range g.Ranks {
				all[other] = other != rank
			}
		}
	}
	delete(all, rank)
	return all
}

// insteadShown is how many of the things that a late rank did a verdict names.
const insteadShown = 2

// insteadText says what a GPU did while only its rank had not entered.
func (r *RankResult) insteadText() string {
	var parts []string
	for _, one := range r.Instead[:min(len(r.Instead), insteadShown)] {
		what := "was idle: " + sanitize.Text(one.Name)
		switch one.What {
		case "kernel":
			what = "ran " + shortName(one.Name)
		case "collective":
			what = "ran other collectives"
		}
		parts = append(parts, what+" ("+humanize.Percent(one.Percent)+")")
	}
	if len(parts) == 0 {
		return ""
	}
	return "; in that time it " + strings.Join(parts, ", and ")
}

// longestName limits a kernel's name in a sentence, in characters.
const longestName = 60

// shortName returns a kernel's name without its parameters, harmless and short.
func shortName(name string) string {
	name, _, _ = strings.Cut(sanitize.Text(name), "(")
	if r := []rune(name); len(r) > longestName {
		return string(r[:longestName]) + "…"
	}
	return name
}

// mostOften says which rank of a group was last most often.
func (r *Result) mostOften(g *GroupResult) string {
	last, times := -1, int64(0)
	by := g.lastBy()
	for _, rank := range g.Ranks {
		if by[rank] > times {
			last, times = rank, by[rank]
		}
	}
	text := fmt.Sprintf("%s of %s", humanize.Things(g.Matched, "collective"), humanize.Things(len(g.Ranks), "rank"))
	if last < 0 {
		return text + fmt.Sprintf(", all with skews within the clocks' uncertainty of %s", humanize.Duration(time.Duration(r.ClockNS)))
	}
	return text + fmt.Sprintf(", last most often %s (%s times)", r.Ranks[last].name(), humanize.Count(times))
}
