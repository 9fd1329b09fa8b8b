// Package ranks compares GPUs that work together: the kernels of a collective operation run on several GPUs, and each
// waits until the last one has entered. It matches these kernels over the ranks (a rank is a GPU of one process),
// divides their time into wait and transfer, and says which rank enters last.
//
// Kernels are matched by name and time, not by index: a kernel of one rank belongs to the kernel of the other that ends
// next to it and runs at the same time (docs/decisions/0038). All times are ns of CLOCK_BOOTTIME.
package ranks

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Limits of what is held in memory.
const (
	mostKernels = 1 << 20 // of collectives: 24 bytes each, and up to half as many collectives of 72 bytes
	mostRanks   = 256     // with collectives
	mostLanes   = 4096    // rank, name and communicator
)

// ClockNS is how far the times of two GPUs may be apart, if nothing else is known: the driver reads a GPU's counter and
// the CPU's clock one after the other, and each process converts ticks by its own samples.
const ClockNS = 5000

// Options select what is compared.
type Options struct {
	Window   traceread.Span        // kernels that run in it
	Patterns *collectives.Patterns // nil: collectives.Default
}

// Rank is one GPU of one process.
type Rank struct {
	Process *traceread.Process
	GPU     int64 // the number of the device in the file
}

// Group is ranks that enter collectives together.
type Group struct {
	Ranks     []int // indexes of Analysis.Ranks, ascending
	MatchedBy By
	Matched   int64 // collectives that all of them entered
	Partly    int64 // collectives that some of them entered
	Unmatched int64 // kernels of these ranks with the group's names, while all were recorded, that belong to no collective of all ranks
	Proven    int64 // collectives in which all of them waited for a single one, so that they are one group and not several in step
	Diverges  *Divergence
}

// By is why kernels are taken for one collective.
type By string

// The reasons.
const (
	ByCommunicator By = "communicator" // calls of RCCL were recorded, and the one that made the communicator
	ByTimes        By = "times"        // same name, running at the same time, ending together
)

// Divergence is the first kernel of a group that not all of its ranks have.
type Divergence struct {
	AtNS    int64 // its start
	Name    int64 // row of rocpd_string
	Has     int   // a rank that has it
	Missing []int // ranks that have not
}

// Collective is one collective operation of a group.
type Collective struct {
	Name    int64 // row of rocpd_string
	FirstNS int64 // the first rank entered
	PrevNS  int64 // the last rank but one entered
	LastNS  int64 // the last rank entered
	LeastNS int64 // the first rank's end
	EndNS   int64 // the last rank's end
	SumNS   int64 // the sum of the entries, as times since FirstNS of the first kernel seen
	baseNS  int64
	Group   int32
	Last    int32 // the rank that entered last
	Kernels int32
	Whole   bool // all ranks of the group entered, so the times can be compared
}

// SkewNS is the time from the first entry to the last.
func (c *Collective) SkewNS() int64 { return c.LastNS - c.FirstNS }

// LateNS is how long the other ranks waited for the last one, on average.
func (c *Collective) LateNS() int64 {
	if c.Kernels < 2 {
		return 0
	}
	last := c.LastNS - c.baseNS
	return last - (c.SumNS-last)/int64(c.Kernels-1)
}

// Kernel is a kernel of a collective.
type Kernel struct {
	StartNS, EndNS int64
	Collective     int32 // index of Analysis.Collectives; negative: none
}

// ambiguous is in the place of a collective: several groups may have the kernel.
const ambiguous = -2

// Analysis is the collectives of a trace.
type Analysis struct {
	Ranks       []*Rank
	Groups      []*Group
	Collectives []Collective // of each group and name in the order of ends
	ClockNS     int64        // a skew up to this is not told from none
	LeftOutNS   int64        // kernels that end from here on are too many, and left out; 0: none
	Ambiguous   int64        // kernels that may be of several groups: they are not matched
	Beyond      int64        // kernels of more ranks, names and communicators than are compared: they are not matched

	names map[int64]bool // names of collectives
	lanes []*lane
}

// Find matches the collectives of a trace; nil: it has none.
func Find(ctx context.Context, tr *traceread.Trace, o Options) (*Analysis, error) {
	if o.Patterns == nil {
		o.Patterns = collectives.Default()
	}
	a := &Analysis{ClockNS: ClockNS, names: map[int64]bool{}}
	if err := a.readNames(ctx, tr, o.Patterns); err != nil || len(a.names) == 0 {
		return nil, err
	}
	if err := a.readKernels(ctx, tr, o.Window); err != nil {
		return nil, fmt.Errorf("collectives: %w", err)
	}
	if len(a.lanes) == 0 {
		return nil, nil
	}
	a.match()
	return a, nil
}

// IsCollective reports whether a row of rocpd_string is the name of a collective.
func (a *Analysis) IsCollective(name int64) bool { return a.names[name] }

// EachByStart calls visit for the kernels of collectives of a rank, in the order of starts.
func (a *Analysis) EachByStart(rank int, visit func(name int64, k *Kernel) error) error {
	for _, o := range a.kernelsOf(func(r int) bool { return r == rank }) {
		if err := visit(a.lanes[o.lane].name, a.at(o)); err != nil {
			return err
		}
	}
	return nil
}

// WaitNS returns how long a kernel waited for other ranks.
func (a *Analysis) WaitNS(k *Kernel) int64 {
	wait, _ := a.parts(k)
	return wait.EndNS - wait.BeginNS
}

// laneKernel is a kernel of a lane.
type laneKernel struct{ lane, kernel int32 }

func (a *Analysis) at(o laneKernel) *Kernel { return &a.lanes[o.lane].kernels[o.kernel] }

// kernelsOf returns the kernels of some ranks in the order of starts.
func (a *Analysis) kernelsOf(of func(rank int) bool) (all []laneKernel) {
	for n, l := range a.lanes {
		if of(l.rank) {
			for i := range l.kernels {
				all = append(all, laneKernel{int32(n), int32(i)})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y laneKernel) int { return cmp.Compare(a.at(x).StartNS, a.at(y).StartNS) })
	return all
}

// Called reports whether the last rank of a collective is known: it entered later than the one before it by more than
// the clocks' uncertainty.
func (a *Analysis) Called(c *Collective) bool { return c.Whole && c.LastNS-c.PrevNS > a.ClockNS }
