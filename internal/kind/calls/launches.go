package calls

import (
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/graphs"
	"github.com/rtl-attach/rtl-attach/internal/histogram"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Launches sums up the calls that launch kernels or graphs.
type Launches struct {
	Calls   int64 `json:"calls"`
	MeanNS  int64 `json:"mean_ns"` // of a call
	P99NS   int64 `json:"p99_ns"`
	Kernels int64 `json:"kernels"` // that they submitted

	// From the begin of a call to the start of its first kernel; Started calls have one.
	Started    int64 `json:"started"`
	StartP50NS int64 `json:"start_p50_ns"`
	StartP99NS int64 `json:"start_p99_ns"`
}

// launches reports whether a function launches kernels or a graph.
func launches(function string) bool {
	return strings.Contains(function, "Launch") && !strings.Contains(function, "HostFunc")
}

const launchGraph = "hipGraphLaunch"

// steps sums up the calls that begin in the report's window, with the kernels that they submitted.
type steps struct {
	window    traceread.Span
	launching map[int64]bool // rows of functions
	graphing  map[int64]bool // those of hipGraphLaunch
	threads   map[int64]*submitter

	cost, start histogram.Histogram // of launches
	launches    Launches
	totalNS     int64
	streams     streamSums
	graphs      graphSums
}

// submitter is a thread, in its last call.
type submitter struct {
	call    *graphs.Step // nil: none, or one that is not counted
	own     graphs.Step
	kernels int64
	replay  replay
}

// readSteps adds what the kernels of HIP's calls tell to a report.
func (c *Report) readSteps(r *kind.Reading, known map[int64]*named) error {
	if is, err := graphs.Streams(r.Trace); err != nil || !is {
		return err
	}
	lives, err := readLives(r, known)
	if err != nil {
		return err
	}
	var s *steps
	err = graphs.Each(r.Ctx, r.Trace, true, func() graphs.Visitor {
		s = newSteps(r.Window, known, lives)
		return s.visit
	})
	if err != nil {
		return err
	}
	for _, t := range s.threads {
		s.finish(t)
	}
	s.into(c)
	if err := c.readWaits(r, known); err != nil {
		return err
	}
	return c.nameStreams(r)
}

func newSteps(window traceread.Span, known map[int64]*named, lives lives) *steps {
	s := &steps{
		window: window, launching: map[int64]bool{}, graphing: map[int64]bool{}, threads: map[int64]*submitter{},
		streams: streamSums{}, graphs: newGraphSums(lives),
	}
	for row, f := range known {
		s.launching[row] = launches(f.name)
		s.graphing[row] = f.name == launchGraph || f.name == launchGraph+"_spt"
	}
	return s
}

func (s *steps) visit(session, id int64, all []graphs.Step) error {
	t := s.threads[id]
	if t == nil {
		t = &submitter{replay: replay{session: session, thread: id}}
		s.threads[id] = t
	}
	for i := range all {
		step := &all[i]
		switch {
		case step.IsCall:
			s.finish(t)
			s.begin(t, step)
		case t.call != nil && step.AtNS <= t.call.AtNS+t.call.DurationNS:
			s.kernel(session, id, t, step)
		}
	}
	return nil
}

func (s *steps) begin(t *submitter, call *graphs.Step) {
	t.own, t.call, t.kernels = *call, nil, 0
	if call.AtNS >= s.window.BeginNS && call.AtNS < s.window.EndNS {
		t.call = &t.own
	}
	t.replay.begin(call)
}

func (s *steps) kernel(session, id int64, t *submitter, k *graphs.Step) {
	if t.kernels == 0 && s.launching[t.call.Function] {
		s.start.Add(k.StartNS - t.call.AtNS)
	}
	t.kernels++
	s.streams.add(session, id, t.call.Stream, k.DurationNS)
	if s.graphing[t.call.Function] {
		t.replay.add(k)
	}
}

// finish counts a thread's last call.
func (s *steps) finish(t *submitter) {
	if t.call == nil {
		return
	}
	if f := t.call.Function; s.launching[f] {
		s.cost.Add(t.call.DurationNS)
		s.totalNS = traceread.Sum(s.totalNS, t.call.DurationNS)
		s.launches.Kernels += t.kernels
		if s.graphing[f] && !t.call.Failed {
			s.graphs.add(&t.replay)
		}
	}
	t.call = nil
}

// into writes the sums to a report.
func (s *steps) into(c *Report) {
	if n := s.cost.Count(); n > 0 {
		l := s.launches
		l.Calls, l.MeanNS, l.P99NS = n, s.totalNS/n, s.cost.Quantile(990)
		l.Started, l.StartP50NS, l.StartP99NS = s.start.Count(), s.start.Quantile(500), s.start.Quantile(990)
		c.Launches = &l
	}
	c.Streams, c.StreamsInAll = s.streams.largest()
	c.Graphs, c.GraphsInAll = s.graphs.largest()
}
