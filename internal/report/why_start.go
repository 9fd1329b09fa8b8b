package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// otherCauses returns the causes of a GPU's idle time that are not a thread's.
func otherCauses(g *GPU, asked *asking, names *kernels) (all []IdleCause, err error) {
	if all, err = asked.startedCauses(g.ID, names); err != nil {
		return nil, err
	}
	for _, c := range g.Gaps {
		switch c.Name {
		case causeNames[causeHost], causeNames[causeLaunch], causeNames[causeDependency]:
		default:
			all = append(all, IdleCause{NS: c.TotalNS, State: c.Name, Times: c.Gaps, Text: c.Text})
		}
	}
	slices.SortFunc(all, func(a, b IdleCause) int { return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Text, b.Text)) })
	return all, nil
}

// startedCauses returns what delayed submitted kernels of a GPU. Dependencies on several kernels of a queue are one cause.
func (a *asking) startedCauses(gpu int64, names *kernels) (all []IdleCause, err error) {
	totals, most := map[startCause]causeTotal{}, map[startCause]startCause{}
	for key, t := range a.started {
		if key.gpu != gpu {
			continue
		}
		together := key.startCause
		together.kernel = 0
		sum := totals[together]
		sum.gaps, sum.totalNS = sum.gaps+t.gaps, traceread.Sum(sum.totalNS, t.totalNS)
		totals[together] = sum
		if m, known := most[together]; !known || a.more(startKey{gpu, key.startCause}, startKey{gpu, m}) {
			most[together] = key.startCause
		}
	}
	for together, sum := range totals {
		c, err := startedCause(most[together], sum, a.started[startKey{gpu, most[together]}].totalNS, names)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// more reports whether the kernel of the first is named rather than that of the second: it has more time, or of equal ones it came first.
func (a *asking) more(one, other startKey) bool {
	if (one.kernel == otherKernel) != (other.kernel == otherKernel) {
		return other.kernel == otherKernel
	}
	return cmp.Or(cmp.Compare(a.started[other].totalNS, a.started[one].totalNS), cmp.Compare(one.kernel, other.kernel)) < 0
}

// startedCause returns a cause with its total; kernelNS of it are the kernel's, if s is a dependency.
func startedCause(s startCause, t causeTotal, kernelNS int64, names *kernels) (c IdleCause, err error) {
	c = IdleCause{NS: t.totalNS, State: startStates[s.kind], Queue: s.queue, Times: t.gaps}
	if s.kind == startElsewhere {
		c.GPU = &s.gpu
	}
	if (s.kind == startDependency || s.kind == startElsewhere) && s.kernel != otherKernel {
		if c.Kernel, err = names.numbered(s.kernel); err != nil {
			return c, err
		}
	}
	c.Text = s.text(c.Kernel, percent(kernelNS, t.totalNS))
	return c, nil
}

// text returns a cause as a sentence; kernel has percent of it.
func (s startCause) text(kernel string, percent float64) string {
	const started = "launched, not yet started: "
	switch s.kind {
	case startQueued:
		return started + "submitted while another kernel ran, after that kernel's end"
	case startOrdered:
		return started + "queued behind a kernel, with the barrier bit, after that kernel's end"
	case startBarrier:
		return started + "waited behind a barrier packet"
	case startDependency:
		return named(fmt.Sprintf("%swaited behind a barrier packet, when a kernel on queue %d had just ended", started, s.queue), kernel, percent)
	case startElsewhere:
		return named(fmt.Sprintf("%swaited behind a barrier packet, until a kernel on queue %d of GPU %d had ended", started, s.queue, s.gpu), kernel, percent)
	}
	return started + "launch latency"
}

// named adds the kernel's name to a sentence about dependencies; it has percent of their time.
func named(text, kernel string, percent float64) string {
	switch {
	case kernel == "":
		return text
	case percent < 100:
		return fmt.Sprintf("%s, mostly (%s) %s", text, humanize.Percent(percent), kernel)
	}
	return fmt.Sprintf("%s: %s", text, kernel)
}
