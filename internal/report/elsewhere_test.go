package report

import (
	"database/sql"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// farKernel is a kernel of a GPU with a single queue.
type farKernel struct {
	start, end, submit int64
	behind             bool // a barrier packet is in front of it
}

const (
	farGPUs   = 3
	farBaseNS = 1_000_000
)

// inventFar writes a trace of a process that uses three GPUs with a queue each, and returns the kernels by GPU.
func inventFar(t *testing.T, random *rand.Rand) (path string, kernels [farGPUs][]farKernel) {
	t.Helper()
	db, path := create(t)
	s := begin(t, db, 41220, "engine")
	end := tracedb.End{Reason: "detached", ArmedNS: farBaseNS}
	for gpu := range farGPUs {
		if gpu > 0 {
			must(t, s.Agent(tracedb.Agent{ID: uint32(gpu + 1), GPU: uint32(gpu), Name: "gfx942", BDF: uint32(0x300 + gpu)}))
			must(t, s.Queue(tracedb.Queue{ID: uint32(gpu + 1), Agent: uint32(gpu + 1), HSAID: uint64(3 + gpu)}))
		}
		var batch []tracedb.Dispatch
		at, index := int64(farBaseNS+1), uint64(0)
		for range 200 {
			k := farKernel{start: at + random.Int64N(3*promptNS), behind: random.IntN(2) == 0}
			k.end, k.submit = k.start+1+random.Int64N(promptNS), k.start-random.Int64N(4*promptNS)
			if index++; k.behind {
				index++
			}
			at = k.end + 1
			kernels[gpu] = append(kernels[gpu], k)
			batch = append(batch, tracedb.Dispatch{
				Queue: uint32(gpu + 1), Launch: 1, TID: 101, Index: index, StartNS: uint64(k.start), EndNS: uint64(k.end), SubmitNS: uint64(k.submit),
			})
		}
		must(t, s.Window(tracedb.Window{Queue: uint32(gpu + 1), OpenNS: farBaseNS, Closed: true, CloseNS: uint64(at), Index: 1, EndIndex: index + 1}), s.Dispatches(batch))
		end.Coverage = append(end.Coverage, tracedb.Coverage{Queue: uint32(gpu + 1), Windows: 1, Dispatches: uint64(len(batch)), Timed: uint64(len(batch))})
		end.DetachedNS = max(end.DetachedNS, uint64(at))
	}
	must(t, s.End(end), db.Close())
	return path, kernels
}

// waits returns the time behind barrier packets by the GPU of the kernel that ended it; -1: there is none.
func farWaits(kernels *[farGPUs][]farKernel, gpu int) map[int]int64 {
	waits, untilNS := map[int]int64{}, int64(farBaseNS)
	for i, k := range kernels[gpu] {
		from := max(untilNS, k.submit)
		if untilNS = k.end; i == 0 || !k.behind || from >= k.start {
			continue
		}
		by, last := -1, from
		for other := range kernels {
			for _, o := range kernels[other] {
				if other != gpu && o.end > last && o.end <= k.start && k.start-o.end <= promptNS {
					by, last = other, o.end
				}
			}
		}
		waits[by] += k.start - from
	}
	return waits
}

// TestElsewhere: a kernel behind a barrier packet started when a kernel on another GPU of its process had just ended. The time is that of
// a search that looks at every kernel.
func TestElsewhere(t *testing.T) {
	for seed := range uint64(8) {
		path, kernels := inventFar(t, rand.New(rand.NewPCG(seed, 1)))
		file, err := sql.Open("sqlite3", path)
		must(t, err)
		_, err = file.Exec(`INSERT INTO rocpd_string(string) VALUES('bpf');
			INSERT INTO rtl_cpu_window(session_id, begun_ns, ended_ns, method_id, cpu_hz, wall_hz, scheduling, least_wait_ns)
			VALUES(1, 1000000, 1 << 40, (SELECT id FROM rocpd_string WHERE string = 'bpf'), 999, 0, 1, 0)`)
		must(t, err, file.Close())
		r, err := Make(path, Options{Gaps: 1 << 10})
		must(t, err)
		for n := range r.WhyIdle.GPUs {
			g := &r.WhyIdle.GPUs[n]
			got, want := map[int]int64{}, farWaits(&kernels, int(g.GPU))
			addWaits(t, got, g.Causes)
			if len(want) != farGPUs || !maps.Equal(got, want) {
				t.Errorf("seed %d, GPU %d: %v, want %v", seed, g.GPU, got, want)
			}
			single := map[int]int64{}
			for _, one := range r.LongestGaps {
				if one.GPU == g.GPU {
					addWaits(t, single, one.Causes)
				}
			}
			if !maps.Equal(single, want) {
				t.Errorf("seed %d, GPU %d: %v in single gaps, want %v", seed, g.GPU, single, want)
			}
		}
	}
}

func addWaits(t *testing.T, waits map[int]int64, causes []IdleCause) {
	t.Helper()
	for _, c := range causes {
		switch {
		case c.State == IdleBarrier:
			waits[-1] += c.NS
		case c.State == IdleDependency && c.GPU != nil:
			waits[int(*c.GPU)] += c.NS
			if c.Queue != *c.GPU+1 || c.Kernel == "" {
				t.Errorf("%+v", c)
			}
		}
	}
}
