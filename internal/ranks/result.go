package ranks

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Result is what a report says of the ranks of a trace. Numbers of ranks are indexes of Ranks.
type Result struct {
	ClockNS   int64         `json:"clock_uncertainty_ns"`       // a skew up to this is not told from none
	LeftOutNS int64         `json:"left_out_from_ns,omitempty"` // collectives that end from here on are not compared
	Ambiguous int64         `json:"ambiguous,omitempty"`        // kernels that may be of several groups, and count as unmatched
	Beyond    int64         `json:"beyond_limits,omitempty"`    // kernels of more ranks, names and communicators than are compared
	Servers   []Server      `json:"servers"`                    // one of each host
	Ranks     []RankResult  `json:"ranks"`
	GPUs      []GPUResult   `json:"gpus"`
	Groups    []GroupResult `json:"groups"`
}

// Server is the verdict about the ranks of one host.
type Server struct {
	Host    string `json:"host"`
	Late    *int   `json:"late,omitempty"` // the late rank; nil: none is, or it is not known
	Known   bool   `json:"known"`          // false: Verdict says why it is not
	Verdict string `json:"verdict"`
}

// RankResult is a GPU of a process.
type RankResult struct {
	GPU      int64     `json:"gpu"`
	PID      int64     `json:"pid"`
	Rank     *int64    `json:"rank,omitempty"` // set by the launcher
	Command  string    `json:"command"`
	Host     string    `json:"host"`
	Compared int64     `json:"collectives"`  // of all ranks of its groups
	Last     int64     `json:"last"`         // of these, that it entered last, by more than the clocks' uncertainty
	LateNS   int64     `json:"late_mean_ns"` // of these: how long the others waited for it
	LateP50  int64     `json:"late_p50_ns"`
	LateP99  int64     `json:"late_p99_ns"`
	WaitNS   int64     `json:"wait_ns"`             // it waited for others, in all
	Others   float64   `json:"others_wait_percent"` // the others' GPUs waited for it, of their recorded time
	Instead  []Instead `json:"instead"`             // what its GPU did while only this rank had not entered, the longest time first; none of several ranks of a GPU
}

// Instead is what a GPU did while other ranks waited for it.
type Instead struct {
	What    string  `json:"what"`             // kernel, collective, or idle
	Name    string  `json:"name"`             // of the kernel, or the cause of idle time
	Thread  *Thread `json:"thread,omitempty"` // that was to submit to it, if Name says what that did; nil: another cause, or it is not known
	NS      int64   `json:"ns"`
	Percent float64 `json:"percent"` // of the time in which it was late
}

// Thread is a thread of a recorded process.
type Thread struct {
	PID  int64  `json:"pid"`
	TID  int64  `json:"tid"`
	Name string `json:"name,omitempty"`
}

// IdleCause is a cause of idle time, as a sentence says it. TID 0: it is no thread's.
type IdleCause struct {
	Thread Thread
	Text   string
}

func (c IdleCause) compare(o IdleCause) int {
	return cmp.Or(cmp.Compare(c.Text, o.Text), cmp.Compare(c.Thread.PID, o.Thread.PID), cmp.Compare(c.Thread.TID, o.Thread.TID))
}

// GPUResult is the uses of a GPU's time. Each time has one use.
type GPUResult struct {
	GPU         int64 `json:"gpu"`
	RecordedNS  int64 `json:"recorded_ns"`
	ComputeNS   int64 `json:"compute_ns"`
	TransferNS  int64 `json:"transfer_ns"`
	WaitNS      int64 `json:"wait_ns"`
	UnmatchedNS int64 `json:"unmatched_ns"` // collectives that were not matched
	CopyNS      int64 `json:"copy_ns"`
	IdleNS      int64 `json:"idle_ns"`
}

// GroupResult is ranks that enter collectives together.
type GroupResult struct {
	Ranks     []int     `json:"ranks"`
	MatchedBy By        `json:"matched_by"`
	Matched   int64     `json:"matched"`   // collectives of all ranks
	Partly    int64     `json:"partly"`    // collectives of some ranks
	Unmatched int64     `json:"unmatched"` // kernels that are in no collective of all ranks, while all were recorded
	Diverges  *Diverges `json:"diverges,omitempty"`
	Sums      []Sum     `json:"collectives"` // the largest wait first
}

// Diverges is the first kernel that not all ranks have.
type Diverges struct {
	AtNS    int64  `json:"at_ns"`
	Kernel  string `json:"kernel"`
	Has     int    `json:"has"`
	Missing []int  `json:"missing"`
}

// Sum sums up the collectives of a group with one name.
type Sum struct {
	Kernel      string `json:"kernel"`
	Collectives int64  `json:"collectives"`
	SkewP50NS   int64  `json:"skew_p50_ns"`
	SkewP99NS   int64  `json:"skew_p99_ns"`
	SkewMaxNS   int64  `json:"skew_max_ns"`
	WaitNS      int64  `json:"wait_ns"`         // of all ranks
	TransferNS  int64  `json:"transfer_ns"`     // of all ranks
	Last        int    `json:"last_most_often"` // -1: no rank was known to be last
	LastTimes   int64  `json:"last_times"`

	lastBy, lateBy map[int32]int64
}

// Naming has names for the rows and numbers of an analysis.
type Naming struct {
	Kernel     func(row int64) (string, error)    // of rocpd_string
	Number     func(number int32) (string, error) // as passed to Usage.Kernel
	Recorded   func(gpu int64) int64              // ns
	RecordedBy func(rank *Rank) int64             // ns in which the rank's process was recorded on its GPU
}

const mostInstead = 8

// Result sums up. usage has the usage of each GPU.
func (a *Analysis) Result(usage map[int64]*Usage, names Naming) (*Result, error) {
	r := &Result{ClockNS: a.ClockNS, LeftOutNS: a.LeftOutNS, Ambiguous: a.Ambiguous, Beyond: a.Beyond, Servers: []Server{}, Ranks: []RankResult{}, GPUs: []GPUResult{}, Groups: []GroupResult{}}
	for _, gpu := range slices.Sorted(maps.Keys(usage)) {
		r.GPUs = append(r.GPUs, gpuResult(gpu, usage[gpu], names.Recorded(gpu)))
	}
	a.addRanks(r)
	for i := range r.Ranks {
		one := &r.Ranks[i]
		one.Others = a.othersWait(i, usage, names.RecordedBy)
		if u := usage[one.GPU]; u != nil && r.ranksOn(one.GPU) == 1 {
			var err error
			if one.Instead, err = u.instead(names); err != nil {
				return nil, err
			}
		}
	}
	if err := a.addGroups(r, names); err != nil {
		return nil, err
	}
	a.addServers(r)
	return r, nil
}

// ranksOn returns how many ranks are on a GPU. What it does is known of the GPU, not of each of them.
func (r *Result) ranksOn(gpu int64) (n int) {
	for i := range r.Ranks {
		if r.Ranks[i].GPU == gpu {
			n++
		}
	}
	return n
}

func gpuResult(gpu int64, u *Usage, recordedNS int64) GPUResult {
	one := GPUResult{
		GPU: gpu, RecordedNS: recordedNS, ComputeNS: u.NS[Compute], TransferNS: u.NS[Transfer], WaitNS: u.NS[Wait],
		UnmatchedNS: u.NS[Unmatched], CopyNS: u.NS[Copy], IdleNS: recordedNS,
	}
	for _, ns := range u.NS {
		one.IdleNS = max(0, one.IdleNS-ns)
	}
	return one
}

func (a *Analysis) addRanks(r *Result) {
	late := make([][]int64, len(a.Ranks))
	for _, rank := range a.Ranks {
		p := rank.Process
		r.Ranks = append(r.Ranks, RankResult{GPU: rank.GPU, PID: p.ID.PID, Rank: p.Rank, Command: p.Command, Host: p.ID.Host, Instead: []Instead{}})
	}
	for i := range a.Collectives {
		c := &a.Collectives[i]
		if !c.Whole {
			continue
		}
		for _, n := range a.Groups[c.Group].Ranks {
			r.Ranks[n].Compared++
		}
		if a.Called(c) {
			late[c.Last] = append(late[c.Last], c.LateNS())
		}
	}
	for _, l := range a.lanes {
		for i := range l.kernels {
			r.Ranks[l.rank].WaitNS = traceread.Sum(r.Ranks[l.rank].WaitNS, a.WaitNS(&l.kernels[i]))
		}
	}
	for i, all := range late {
		one := &r.Ranks[i]
		slices.Sort(all)
		one.Last = int64(len(all))
		one.LateP50, one.LateP99, one.LateNS = quantile(all, 500), quantile(all, 990), mean(all)
	}
}

// quantile returns a quantile of sorted values, in thousandths, by nearest rank.
func quantile(sorted []int64, permille int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*permille+999)/1000-1)]
}

func mean(values []int64) int64 {
	sum := int64(0)
	for _, v := range values {
		sum = traceread.Sum(sum, v)
	}
	return sum / max(1, int64(len(values)))
}

// othersWait returns the share of their recorded time in which the GPUs of a rank's groups waited for it, in percent.
func (a *Analysis) othersWait(rank int, usage map[int64]*Usage, recorded func(*Rank) int64) float64 {
	gpus := map[int64]int64{} // ns in which a process of the groups was recorded
	for _, g := range a.Groups {
		if !slices.Contains(g.Ranks, rank) {
			continue
		}
		for _, other := range g.Ranks {
			gpu := a.Ranks[other].GPU
			gpus[gpu] = max(gpus[gpu], recorded(a.Ranks[other]))
		}
	}
	delete(gpus, a.Ranks[rank].GPU)
	var waitNS, allNS int64
	for gpu, ns := range gpus {
		if u := usage[gpu]; u != nil {
			waitNS, allNS = traceread.Sum(waitNS, u.WaitedFor[int32(rank)]), traceread.Sum(allNS, ns)
		}
	}
	return 100 * float64(waitNS) / float64(max(1, allNS))
}

// instead returns what a GPU did while its rank was late.
func (u *Usage) instead(names Naming) ([]Instead, error) {
	all := []Instead{}
	for _, number := range slices.Sorted(maps.Keys(u.Instead)) {
		one := Instead{What: "kernel", NS: u.Instead[number]}
		if number == OtherCollectives {
			one.What = "collective"
		} else {
			var err error
			if one.Name, err = names.Number(number); err != nil {
				return nil, err
			}
		}
		all = append(all, one)
	}
	for _, cause := range slices.SortedFunc(maps.Keys(u.IdleLate), IdleCause.compare) {
		one := Instead{What: "idle", Name: cause.Text, NS: u.IdleLate[cause]}
		if cause.Thread.TID != 0 {
			one.Thread = &cause.Thread
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(x, y Instead) int { return cmp.Compare(y.NS, x.NS) })
	all = all[:min(len(all), mostInstead)]
	for i := range all {
		all[i].Percent = 100 * float64(all[i].NS) / float64(max(1, u.LateNS))
	}
	return slices.DeleteFunc(all, func(one Instead) bool { return one.NS == 0 }), nil
}
