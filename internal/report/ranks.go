package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// beginUsage prepares to divide the GPUs' times, if the trace has collectives.
func (a *analysis) beginUsage() {
	if a.ranks == nil {
		return
	}
	a.kernels.isCollective = a.ranks.IsCollective
	for id, g := range a.gpus {
		g.usage = a.ranks.Usage(id, g.declared, g.copies)
	}
}

// use passes a kernel to the usage of its GPU.
func (a *analysis) use(g *gpu, k *pendingKernel) {
	if g.usage != nil {
		g.usage.Kernel(k.startNS, k.endNS, k.kernel, k.kernel != filteredKernel && a.kernels.list[k.kernel].collective)
	}
}

// divideLate adds the parts of a gap in which other ranks waited for the GPU's to the usage, by cause.
func (g *gap) divideLate(m measure, d division) {
	u := g.gpu.usage
	if u == nil {
		return
	}
	copies := g.gpu.copies
	u.Idle(g.span, func(late traceread.Span) {
		part := gap{gpu: g.gpu}
		part.divide(m, d, late, &copies)
		for c, ns := range part.parts {
			if ns > 0 {
				u.IdleLate[ranks.IdleCause{Text: causeTexts[c]}] += ns
			}
		}
		for _, s := range g.host {
			if s = s.Clip(late); s.BeginNS < s.EndNS {
				g.late = append(g.late, s)
			}
		}
	})
}

// explainLate replaces the host's part of the idle time of late ranks by what their threads did, if the trace has that.
func (r *Report) explainLate(tr *traceread.Trace, a *analysis) error {
	if a.why == nil || !a.why.hasLate {
		return nil
	}
	stacks, err := whyidle.OpenStacks(tr)
	if err != nil {
		return err
	}
	defer stacks.Close()
	found, err := whyidle.Find(background, tr, a.windows.cpu, &a.why.late, nil, stacks)
	if err != nil {
		return fmt.Errorf("what threads of late ranks did: %w", err)
	}
	w := newExplainer(r, tr, stacks, a.kernels)
	for id, g := range a.gpus {
		of := found.GPUs[id]
		if g.usage == nil || of == nil {
			continue
		}
		causes, err := w.merge(of.Parts)
		if err != nil {
			return err
		}
		host := ranks.IdleCause{Text: causeTexts[causeHost]}
		for i := range causes {
			c := ranks.IdleCause{Text: causes[i].Text}
			if causes[i].Thread != nil {
				c.Thread = ranks.Thread(*causes[i].Thread)
			}
			ns := min(causes[i].NS, g.usage.IdleLate[host])
			g.usage.IdleLate[host] -= ns
			g.usage.IdleLate[c] += ns
		}
	}
	return nil
}

// recordedBy returns how much of the window a rank's own process was recorded on its GPU, in ns.
func (a *analysis) recordedBy(rank *ranks.Rank) int64 {
	var own []*gpuSession
	for _, gs := range a.gpus[rank.GPU].sessions {
		if gs.session.process.Process == rank.Process {
			own = append(own, gs)
		}
	}
	return a.recorded(own)
}

// fillRanks compares the ranks.
func (r *Report) fillRanks(tr *traceread.Trace, a *analysis) (err error) {
	if a.ranks == nil {
		return nil
	}
	if err := r.explainLate(tr, a); err != nil {
		return err
	}
	usage := map[int64]*ranks.Usage{}
	for id, g := range a.gpus {
		usage[id] = g.usage
	}
	names := stepNames{tr: tr, known: map[int64]string{}}
	r.Ranks, err = a.ranks.Result(usage, ranks.Naming{
		Kernel: func(row int64) (string, error) { return names.of(row), names.err },
		Number: func(number int32) (string, error) {
			if number == filteredKernel {
				return filteredName, nil
			}
			return names.of(a.kernels.list[number].nameID), names.err
		},
		Recorded:   func(gpu int64) int64 { return a.recorded(a.gpus[gpu].sessions) },
		RecordedBy: a.recordedBy,
	})
	return err
}

// What the text has of ranks.
const (
	ranksShown      = 16
	rankGroupsShown = 8
	rankSumsShown   = 4
)

func (r *Report) writeRanks(b *bytes.Buffer, fullNames bool) {
	if r.Ranks == nil {
		return
	}
	for i, s := range r.Ranks.Servers {
		label := ""
		if i == 0 {
			label = "Ranks"
		}
		host := ""
		if len(r.Ranks.Servers) > 1 {
			host = sanitize.Text(s.Host) + ": "
		}
		line(b, label, "%s%s", host, s.Verdict)
	}
	if len(r.Ranks.Groups) == 0 {
		return
	}
	line(b, "", "times of two GPUs are comparable to %s: a smaller skew is not told from none", duration(r.Ranks.ClockNS))
	if r.Ranks.LeftOutNS > 0 {
		line(b, "", "too many collectives: those from %s on are not compared", duration(r.Ranks.LeftOutNS-r.ZeroNS))
	}
	if r.Ranks.Beyond > 0 {
		line(b, "", "too many ranks, names or communicators: %s of collectives are not compared, and count as unmatched", humanize.Things(r.Ranks.Beyond, "kernel"))
	}
	if r.Ranks.Ambiguous > 0 {
		line(b, "", "%s of collectives may be of several groups that end together, and count as unmatched", humanize.Things(r.Ranks.Ambiguous, "kernel"))
	}
	r.writeRankTable(b)
	for i := range r.Ranks.Groups[:min(len(r.Ranks.Groups), rankGroupsShown)] {
		r.writeRankGroup(b, &r.Ranks.Groups[i], fullNames)
	}
	if n := len(r.Ranks.Groups) - rankGroupsShown; n > 0 {
		line(b, "", "and %s", humanize.Things(n, "group"))
	}
}

// writeRankTable writes the uses of each GPU's time, and the lateness of its ranks.
func (r *Report) writeRankTable(b *bytes.Buffer) {
	g := grid{align: "lrrrrrrrrr"}
	g.add("% of the window", "compute", "transfer", "wait", "unmatched", "copies", "idle", "last", "late mean", "p99")
	shown := 0
	for i := range r.Ranks.GPUs {
		use := &r.Ranks.GPUs[i]
		share := func(ns int64) string { return humanize.Percent(percent(ns, use.RecordedNS)) }
		uses := []string{share(use.ComputeNS), share(use.TransferNS), share(use.WaitNS), share(use.UnmatchedNS), share(use.CopyNS), share(use.IdleNS)}
		ofGPU := slices.DeleteFunc(slices.Clone(r.Ranks.Ranks), func(one ranks.RankResult) bool { return one.GPU != use.GPU })
		if shown++; len(ofGPU) == 0 || shown > ranksShown {
			continue
		}
		for n, one := range ofGPU {
			if n > 0 {
				uses = []string{"", "", "", "", "", ""}
			}
			g.add(slices.Concat([]string{" " + rankTitle(&one)}, uses, []string{
				fmt.Sprintf("%s of %s", humanize.Count(one.Last), humanize.Count(one.Compared)), duration(one.LateNS), duration(one.LateP99),
			})...)
		}
	}
	g.write(b)
	if shown > ranksShown {
		line(b, "", "and %s", humanize.Things(shown-ranksShown, "GPU"))
	}
}

func rankTitle(one *ranks.RankResult) string {
	if one.Rank != nil {
		return fmt.Sprintf("GPU %d rank %d pid %d", one.GPU, *one.Rank, one.PID)
	}
	return fmt.Sprintf("GPU %d pid %d", one.GPU, one.PID)
}

func (r *Report) writeRankGroup(b *bytes.Buffer, g *ranks.GroupResult, fullNames bool) {
	line(b, "", "group of %s: %s matched by %s, %s not matched", r.gpusText(g.Ranks), humanize.Things(g.Matched, "collective"), g.MatchedBy,
		humanize.Things(g.Unmatched, "kernel"))
	if d := g.Diverges; d != nil {
		line(b, "", " they differ from %s on: %s is on %s, and not on %s", duration(d.AtNS-r.ZeroNS), kernelName(d.Kernel, fullNames), r.gpusText([]int{d.Has}), r.gpusText(d.Missing))
	}
	for i := range g.Sums[:min(len(g.Sums), rankSumsShown)] {
		s := &g.Sums[i]
		last := ""
		if s.Last >= 0 {
			last = fmt.Sprintf(", last most often %s (%s)", r.gpusText([]int{s.Last}), humanize.Count(s.LastTimes))
		}
		line(b, "", " %s × %s: skew p50 %s  p99 %s  max %s, wait %s, transfer %s%s", humanize.Count(s.Collectives), kernelName(s.Kernel, fullNames),
			duration(s.SkewP50NS), duration(s.SkewP99NS), duration(s.SkewMaxNS), duration(s.WaitNS), duration(s.TransferNS), last)
	}
}

// gpusText names the GPUs of ranks.
func (r *Report) gpusText(of []int) string {
	if len(of) == 0 {
		return "no other GPU"
	}
	var gpus []string
	for _, n := range of {
		gpus = append(gpus, strconv.FormatInt(r.Ranks.Ranks[n].GPU, 10))
	}
	name := "GPU "
	if len(of) > 1 {
		name = "GPUs "
	}
	return shorten(name+strings.Join(gpus, ","), nameWidth)
}

// rankRows, rankUseRows and rankSumRows are the CSV tables of ranks.
func rankRows(r *Report) (rows [][]any) {
	if r.Ranks == nil {
		return nil
	}
	for i := range r.Ranks.Ranks {
		one := &r.Ranks.Ranks[i]
		var rank any
		if one.Rank != nil {
			rank = *one.Rank
		}
		var instead ranks.Instead
		if len(one.Instead) > 0 {
			instead = one.Instead[0]
		}
		rows = append(rows, []any{
			one.GPU, one.PID, rank, one.Command, one.Host, one.Compared, one.Last, one.LateNS, one.LateP50, one.LateP99, one.WaitNS, one.Others,
			instead.What, instead.Name, instead.NS,
		})
	}
	return rows
}

func rankUseRows(r *Report) (rows [][]any) {
	if r.Ranks == nil {
		return nil
	}
	for _, one := range r.Ranks.GPUs {
		rows = append(rows, []any{one.GPU, one.RecordedNS, one.ComputeNS, one.TransferNS, one.WaitNS, one.UnmatchedNS, one.CopyNS, one.IdleNS})
	}
	return rows
}

func rankSumRows(r *Report) (rows [][]any) {
	if r.Ranks == nil {
		return nil
	}
	for i, g := range r.Ranks.Groups {
		for _, s := range g.Sums {
			gpus := strings.TrimPrefix(strings.TrimPrefix(r.gpusText(g.Ranks), "GPUs "), "GPU ")
			last := any(nil)
			if s.Last >= 0 {
				last = r.Ranks.Ranks[s.Last].GPU
			}
			rows = append(rows, []any{
				int64(i), strings.ReplaceAll(gpus, ",", " "), string(g.MatchedBy), s.Kernel, s.Collectives, s.SkewP50NS, s.SkewP99NS, s.SkewMaxNS,
				s.WaitNS, s.TransferNS, last, s.LastTimes, g.Partly, g.Unmatched,
			})
		}
	}
	slices.SortStableFunc(rows, func(a, b []any) int { return cmp.Compare(a[0].(int64), b[0].(int64)) })
	return rows
}
