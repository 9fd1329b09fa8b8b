package trigger

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// slowKernel fires when a kernel whose name matches ran longer than a limit, or than a multiple of a
// percentile of its last runs.
type slowKernel struct {
	re       *regexp.Regexp
	limitNS  uint64
	factor   float64 // 0: limitNS counts
	permille int64

	kernels  map[string]*runs
	launches map[uint32]*runs
}

const (
	lastRuns  = 256 // the percentile is of the last runs
	leastRuns = 64  // with fewer, nothing fires
	renewRuns = 32  // after so many runs the percentile is computed again
)

// runs are the last runs of a kernel.
type runs struct {
	name   string
	last   []uint64 // ns, up to lastRuns, in a ring
	n      uint64
	usual  uint64 // the percentile; 0: not known yet
	sorted []uint64
}

func newSlowKernel(re *regexp.Regexp, limitNS uint64, factor float64, permille int64) *slowKernel {
	return &slowKernel{re: re, limitNS: limitNS, factor: factor, permille: permille, kernels: map[string]*runs{}, launches: map[uint32]*runs{}}
}

// longestName is how much of a kernel's name a firing has, in bytes.
const longestName = 256

func short(name string) string {
	if len(name) <= longestName {
		return name
	}
	return strings.ToValidUTF8(name[:longestName], "") + "…"
}

// defined is called for each launch.
func (k *slowKernel) defined(id uint32, name string) {
	if !k.re.MatchString(name) {
		return
	}
	one := k.kernels[name]
	if one == nil {
		if len(k.kernels) >= mostKernels {
			return
		}
		one = &runs{name: short(name)}
		k.kernels[name] = one
	}
	if len(k.launches) >= mostLaunches {
		clear(k.launches)
	}
	k.launches[id] = one
}

func (k *slowKernel) kernel(d *tracedb.Dispatch, fire func(string, uint64)) {
	one := k.launches[d.Launch]
	if one == nil {
		return
	}
	took := d.EndNS - d.StartNS
	if k.factor == 0 {
		if took > k.limitNS {
			fire(one.name+": "+text(took), d.EndNS)
		}
		return
	}
	if one.usual > 0 && float64(took) > k.factor*float64(one.usual) {
		fire(fmt.Sprintf("%s: %s, %.1f times %s", one.name, text(took), float64(took)/float64(one.usual), text(one.usual)), d.EndNS)
	}
	one.add(took, k.permille)
}

// add adds a run.
func (r *runs) add(took uint64, permille int64) {
	if len(r.last) < lastRuns {
		r.last = append(r.last, took)
	} else {
		r.last[r.n%lastRuns] = took
	}
	if r.n++; r.n < leastRuns || r.n%renewRuns != 0 {
		return
	}
	r.sorted = append(r.sorted[:0], r.last...)
	slices.Sort(r.sorted)
	r.usual = max(r.sorted[int64(len(r.sorted)-1)*permille/1000], 1)
}

func (*slowKernel) lost(_, _ uint64) {}

func (*slowKernel) settle(uint64, bool, func(string, uint64)) {}
