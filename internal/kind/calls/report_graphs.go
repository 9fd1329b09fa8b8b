package calls

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/graphs"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Graph sums up the replays of a graph: the successful launches of an executable graph.
type Graph struct {
	PID       int64  `json:"pid"`
	Exec      string `json:"exec"` // the handle of the executable graph
	Replays   int64  `json:"replays"`
	Different int64  `json:"different"` // replays with other kernels, or in another order, than most kernels have
	Kernels   int64  `json:"kernels"`   // of a replay
	GPUNS     int64  `json:"gpu_ns"`    // the sum of the times of all replays' kernels
	MeanNS    int64  `json:"mean_ns"`   // from the start of a replay's first kernel to the end of its last
	MaxNS     int64  `json:"max_ns"`

	key       graphKey
	totalNS   int64
	sequences map[sequence]int64 // replays; at most mostSequences
}

// graphKey identifies a graph: its handle, and how many graphs had that handle before.
type graphKey struct {
	session, exec int64
	earlier       int
}

// sequence identifies the names of a replay's kernels, in their order.
type sequence struct{ kernels, hash int64 }

// mostSequences limits the sequences of a graph in memory.
const mostSequences = 64

// replay is a launch of a graph.
type replay struct {
	session, thread int64
	exec, startNS   int64
	names           sequence
	nodes           []graphs.Step
	firstNS, lastNS int64
	gpuNS           int64
}

func (r *replay) begin(call *graphs.Step) {
	*r = replay{session: r.session, thread: r.thread, nodes: r.nodes[:0], exec: call.Word, startNS: call.AtNS, firstNS: traceread.LatestNS}
}

// mostNodes limits the kernels of a replay that are compared.
const mostNodes = 1 << 14

// sequence returns the names of the kernels in the order of their submits: in a queue, that of the packets, as
// the times of submits are estimates.
func (r *replay) sequence() sequence {
	slices.SortFunc(r.nodes, func(a, b graphs.Step) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Packet, b.Packet))
	})
	for i := 1; i < len(r.nodes); i++ {
		if last, k := &r.nodes[i-1], &r.nodes[i]; last.Queue == k.Queue {
			k.AtNS = max(k.AtNS, last.AtNS)
		}
	}
	slices.SortStableFunc(r.nodes, func(a, b graphs.Step) int { return cmp.Compare(a.AtNS, b.AtNS) })
	all := r.names
	for i := range r.nodes {
		all.hash = (all.hash ^ r.nodes[i].Name) * 1099511628211 // FNV-1a's step
	}
	return all
}

// add adds a kernel.
func (r *replay) add(k *graphs.Step) {
	if r.names.kernels++; len(r.nodes) < mostNodes {
		r.nodes = append(r.nodes, *k)
	}
	r.firstNS, r.lastNS = min(r.firstNS, k.StartNS), max(r.lastNS, k.StartNS+k.DurationNS)
	r.gpuNS = traceread.Sum(r.gpuNS, k.DurationNS)
}

// lives has the times at which the graph with a handle ended, or another one began, in order.
type lives map[[2]int64][]int64

// readLives reads when graphs were instantiated and destroyed.
func readLives(r *kind.Reading, known map[int64]*named) (lives, error) {
	all := lives{}
	rows := rowsOf(known, func(name string) bool {
		return name == "hipGraphExecDestroy" || strings.HasPrefix(name, "hipGraphInstantiate")
	})
	if rows == "" {
		return all, nil
	}
	return all, r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var session, exec, startNS int64
		err := row.Scan(&session, &exec, &startNS)
		key := [2]int64{session, exec}
		all[key] = append(all[key], startNS)
		return err
	}, fmt.Sprintf(`SELECT session_id, rtl_word(arguments, 0), start_ns FROM rtl_call WHERE function_id IN (%s) AND result = 0
		AND length(arguments) >= 8 ORDER BY start_ns LIMIT %d`, rows, traceread.MostDefinitions))
}

// graphSums sums up replays by graph.
type graphSums struct {
	lives lives
	byKey map[graphKey]*Graph
}

// mostGraphs limits the graphs in memory; replays of others are not counted.
const mostGraphs = 1 << 12

func newGraphSums(l lives) graphSums { return graphSums{lives: l, byKey: map[graphKey]*Graph{}} }

func (s *graphSums) add(r *replay) {
	earlier, _ := slices.BinarySearch(s.lives[[2]int64{r.session, r.exec}], r.startNS)
	key := graphKey{r.session, r.exec, earlier}
	g := s.byKey[key]
	if g == nil {
		if len(s.byKey) >= mostGraphs {
			return
		}
		g = &Graph{Exec: "0x" + strconv.FormatUint(uint64(r.exec), 16), key: key, sequences: map[sequence]int64{}}
		s.byKey[key] = g
	}
	g.Replays++
	g.GPUNS = traceread.Sum(g.GPUNS, r.gpuNS)
	if r.names.kernels > 0 {
		g.totalNS, g.MaxNS = traceread.Sum(g.totalNS, r.lastNS-r.firstNS), max(g.MaxNS, r.lastNS-r.firstNS)
	}
	names := r.sequence()
	if _, known := g.sequences[names]; known || len(g.sequences) < mostSequences {
		g.sequences[names]++
	}
}

// largest returns the graphs with most time, and the number of all.
func (s *graphSums) largest() ([]Graph, int64) {
	all := make([]Graph, 0, len(s.byKey))
	for _, g := range s.byKey {
		g.MeanNS = g.totalNS / g.Replays
		var same int64
		for names, replays := range g.sequences { // a replay at the recording's begin may lack kernels
			if names.kernels > g.Kernels || names.kernels == g.Kernels && replays > same {
				g.Kernels, same = names.kernels, replays
			}
		}
		g.Different = g.Replays - same
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Graph) int {
		return cmp.Or(cmp.Compare(b.GPUNS, a.GPUNS), cmp.Compare(b.Replays, a.Replays), cmp.Compare(a.key.session, b.key.session),
			cmp.Compare(uint64(a.key.exec), uint64(b.key.exec)), cmp.Compare(a.key.earlier, b.key.earlier))
	})
	return all[:min(len(all), mostRows)], int64(len(all))
}

// rowsOf returns the rows of functions as a list for SQL.
func rowsOf(known map[int64]*named, is func(name string) bool) string {
	var rows []string
	for row, f := range known {
		if is(f.name) {
			rows = append(rows, strconv.FormatInt(row, 10))
		}
	}
	return strings.Join(rows, ", ")
}
