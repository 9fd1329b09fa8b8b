package graphs

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/histogram"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Batch is a sequence of kernels that a thread submits again and again.
type Batch struct {
	Session, Thread int64 // rows
	First           int64 // row of rtl_launch: the first kernel
	Kernels         int64 // of a batch
	Batches         int64
	Percent         float64 // of the thread's kernels that are in batches
	P50NS           int64   // from the start of a batch's first kernel to the last end
	GapP50NS        int64   // from a batch's last end to the next batch's first start
}

// The evidence that a batch recurs. Kernels in a random order reach it with a probability that the
// tests show to be small.
const (
	leastKernels = 4  // of a batch
	leastBatches = 3  // equal ones
	leastPercent = 50 // of the thread's kernels
)

// Limits of the memory and of the time of a search.
const (
	mostKernels     = 4096 // of a batch
	sampleKernels   = 8192 // in which a batch is searched for
	mostSamples     = 4    // of a thread
	mostThreads     = 64
	mostCandidates  = 32 // kernels that may be the only ones with their launch in a batch
	longGapMultiple = 4  // of the median time between submits: a gap between batches
)

var errAllSearched = errors.New("no thread has batches")

// Batches finds the recurring batches of the kernels that start in a window, by thread.
func Batches(ctx context.Context, tr *traceread.Trace, window traceread.Span) ([]Batch, error) {
	var s *search
	err := Each(ctx, tr, false, func() Visitor {
		s = &search{window: window, threads: map[int64]*finder{}}
		return s.visit
	})
	if err != nil && !errors.Is(err, errAllSearched) {
		return nil, err
	}
	var all []Batch
	for id, f := range s.threads {
		f.search()
		if b, found := f.batch(); found {
			b.Session, b.Thread = f.session, id
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Batch) int {
		return cmp.Or(cmp.Compare(b.Batches*b.Kernels, a.Batches*a.Kernels), cmp.Compare(a.Thread, b.Thread))
	})
	return all, nil
}

// search looks for batches of all threads.
type search struct {
	window  traceread.Span
	threads map[int64]*finder
	given   int // threads that have been given up
}

func (s *search) visit(session, id int64, steps []Step) error {
	f := s.threads[id]
	if f == nil {
		if len(s.threads) >= mostThreads {
			return nil
		}
		f = &finder{session: session}
		s.threads[id] = f
	}
	if f.samples >= mostSamples {
		return nil
	}
	for i := range steps {
		if k := &steps[i]; k.StartNS >= s.window.BeginNS && k.StartNS < s.window.EndNS {
			f.add(k)
		}
	}
	if f.samples < mostSamples {
		return nil
	}
	if s.given++; s.given == mostThreads {
		return errAllSearched
	}
	return nil
}

// kernel is what a finder needs of a kernel.
type kernel struct{ launch, atNS, startNS, endNS int64 }

// finder looks for the batches of a thread: in a sample first, then by comparing each kernel with the batch that
// the sample has.
type finder struct {
	session int64
	sample  []kernel
	samples int   // in which there was no batch
	total   int64 // kernels

	pattern []int64  // launches of a batch; nil: none is known
	border  []int    // see borders
	at      int      // how many kernels of a batch have been seen
	last    []kernel // the last len(pattern) kernels, in a ring
	next    int
	batches int64
	lastNS  int64 // the last batch's end

	length, gap *histogram.Histogram
}

func (f *finder) add(k *Step) {
	f.total++
	one := kernel{k.Launch, k.AtNS, k.StartNS, k.StartNS + k.DurationNS}
	if f.pattern != nil {
		f.match(one)
		return
	}
	if f.sample = append(f.sample, one); len(f.sample) == sampleKernels {
		f.search()
	}
}

// search searches the sample for a batch.
func (f *finder) search() {
	if f.pattern != nil {
		return
	}
	sample := f.sample
	f.sample = f.sample[:0]
	if f.pattern = find(sample); f.pattern == nil {
		f.samples++
		return
	}
	f.sample = nil
	f.border, f.last = borders(f.pattern), make([]kernel, len(f.pattern))
	f.length, f.gap = &histogram.Histogram{}, &histogram.Histogram{}
	for _, k := range sample {
		f.match(k)
	}
}

// borders returns for each prefix of a sequence the length of the longest shorter one with which it ends
// (Knuth, Morris and Pratt).
func borders(sequence []int64) []int {
	b := make([]int, len(sequence)+1)
	b[0] = -1
	for i, n := 0, -1; i < len(sequence); i++ {
		for n >= 0 && sequence[n] != sequence[i] {
			n = b[n]
		}
		n++
		b[i+1] = n
	}
	return b
}

// match compares the next kernel with the batch.
func (f *finder) match(k kernel) {
	f.last[f.next] = k
	f.next = (f.next + 1) % len(f.last)
	for f.at >= 0 && f.pattern[f.at] != k.launch {
		f.at = f.border[f.at]
	}
	if f.at++; f.at < len(f.pattern) {
		return
	}
	f.at = 0 // batches do not overlap
	startNS, endNS := f.last[0].startNS, int64(0)
	for _, one := range f.last {
		startNS, endNS = min(startNS, one.startNS), max(endNS, one.endNS)
	}
	f.length.Add(endNS - startNS)
	if f.batches++; f.batches > 1 {
		f.gap.Add(startNS - f.lastNS)
	}
	f.lastNS = endNS
}

// batch returns the batch, if there is enough evidence.
func (f *finder) batch() (b Batch, found bool) {
	in := f.batches * int64(len(f.pattern))
	if f.batches < leastBatches || in*100 < f.total*leastPercent {
		return b, false
	}
	return Batch{
		First: f.pattern[0], Kernels: int64(len(f.pattern)), Batches: f.batches, Percent: 100 * float64(in) / float64(f.total),
		P50NS: f.length.Quantile(500), GapP50NS: f.gap.Quantile(500),
	}, true
}
