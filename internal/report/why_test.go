package report

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// whyWant has ns by what a reader of the report distinguishes.
type whyWant struct {
	causes    map[string]int64 // of blocked, ready and unobserved threads
	running   map[int64]int64  // by thread
	samples   map[int64]map[string]int64
	unsampled int64
	meanwhile map[string]map[string]int64 // by cause and waker's state; running: without a stack
}

func newWhyWant() *whyWant {
	return &whyWant{
		causes: map[string]int64{}, running: map[int64]int64{}, samples: map[int64]map[string]int64{}, meanwhile: map[string]map[string]int64{},
	}
}

// bruteForce looks at each ns of a GPU: the next kernel, and the state of its thread.
func (sc *cpuScene) bruteForce(gpu int64) *whyWant {
	w := newWhyWant()
	for at := range sc.length {
		now := sc.baseNS + at
		var next *cpuKernel
		busy, before := false, false
		for i := range sc.kernels {
			k := &sc.kernels[i]
			if k.gpu != gpu {
				continue
			}
			busy = busy || k.start <= now && now < k.end
			before = before || k.start <= now
			if k.start > now && (next == nil || k.start < next.start) {
				next = k
			}
		}
		if busy || !before || next == nil || next.submit < 0 || now >= next.submit {
			continue
		}
		sc.count(w, at, next.thread)
	}
	return w
}

func (sc *cpuScene) observed(at int64) bool {
	return sc.baseNS+at >= sc.window.beginNS && sc.baseNS+at < sc.window.endNS
}

func (sc *cpuScene) count(w *whyWant, at, thread int64) {
	if !sc.observed(at) {
		w.causes[fmt.Sprintf("thread %d unobserved", 101+thread)]++
		return
	}
	is := sc.state[thread][at]
	if is.state == "running" {
		w.running[101+thread]++
		if stack, sampled := sc.samples[thread][at]; sampled {
			if w.samples[101+thread] == nil {
				w.samples[101+thread] = map[string]int64{}
			}
			w.samples[101+thread]["f"+stack]++
		}
		return
	}
	key := fmt.Sprintf("thread %d %s f%d", 101+thread, is.state, is.stack)
	w.causes[key]++
	if is.waker < 0 {
		return
	}
	key += fmt.Sprintf(" woken by %d", 101+is.waker)
	if w.meanwhile[key] == nil {
		w.meanwhile[key] = map[string]int64{}
	}
	of := sc.state[is.waker][at]
	what := of.state
	if what != "running" {
		what += fmt.Sprintf(" f%d", of.stack)
	}
	w.meanwhile[key][what]++
}

// TestWhyAgainstBruteForce compares the causes with what each thread did at each ns.
func TestWhyAgainstBruteForce(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(12) {
		sc := inventThreads(t, rand.New(rand.NewPCG(seed, 3)))
		r, err := Make(sc.path, Options{})
		must(t, err)
		if r.WhyIdle == nil || len(r.WhyIdle.GPUs) != cpuGPUs {
			t.Fatalf("%+v", r.WhyIdle)
		}
		for i := range r.WhyIdle.GPUs {
			g := &r.WhyIdle.GPUs[i]
			want := sc.bruteForce(g.GPU)
			sc.check(t, seed, g, want)
			sc.checkMeanwhile(t, seed, g.GPU, want)
			for _, c := range g.Causes {
				seen[c.State] = true
			}
		}
	}
	for _, state := range []string{IdleRunning, IdleReady, IdleBlocked, IdleUnobserved, IdleLaunch, IdleQueued, causeNames[causeEdge], causeNames[causeUnknown]} {
		if !seen[state] {
			t.Errorf("no cause is %s: the test reaches less than it should", state)
		}
	}
}

// checkMeanwhile compares what the wakers did with the pieces that Find has before the report merges them.
func (sc *cpuScene) checkMeanwhile(t *testing.T, seed uint64, gpu int64, want *whyWant) {
	t.Helper()
	tr, err := traceread.Open(t.Context(), sc.path)
	must(t, err)
	defer tr.Close()
	w := wholeTime
	must(t, w.askWhy(tr, Options{}))
	a, err := analyse(tr, w, nil)
	must(t, err)
	defer a.close()
	stacks, err := whyidle.OpenStacks(tr)
	must(t, err)
	defer stacks.Close()
	found, err := whyidle.Find(t.Context(), tr, w.cpu, &a.why.questions, nil, stacks)
	must(t, err)
	tids := map[int64]int64{}
	must(t, tr.Define(t.Context(), func(r traceread.Row) error {
		var id, tid int64
		err := r.Scan(&id, &tid)
		tids[id] = tid
		return err
	}, "SELECT id, tid FROM rtl_thread"))
	got := map[string]map[string]int64{}
	for _, p := range found.GPUs[gpu].Parts {
		if p.Waker.Thread == 0 {
			continue
		}
		key := fmt.Sprintf("thread %d blocked f%d woken by %d", tids[p.Thread], p.Stack, tids[p.Waker.Thread])
		got[key] = map[string]int64{}
		for _, m := range p.Meanwhile {
			what := threadStates[m.State]
			if m.State != whyidle.Running {
				what += fmt.Sprintf(" f%d", m.Stack)
			}
			got[key][what] += m.NS
		}
	}
	if !reflect.DeepEqual(got, want.meanwhile) {
		t.Errorf("seed %d, GPU %d: meanwhile %v\nwant %v", seed, gpu, got, want.meanwhile)
	}
}

func (sc *cpuScene) check(t *testing.T, seed uint64, g *WhyIdleGPU, want *whyWant) {
	t.Helper()
	got, sampled, sum := map[string]int64{}, map[string]int64{}, int64(0)
	for _, c := range g.Causes {
		sum += c.NS
		switch c.State {
		case IdleBlocked, IdleReady:
			got[fmt.Sprintf("thread %d %s %s", c.Thread.TID, c.State, c.In.Function)] += c.NS
		case IdleUnobserved:
			got[fmt.Sprintf("thread %d unobserved", c.Thread.TID)] += c.NS
		case IdleRunning:
			if c.In != nil {
				sampled[fmt.Sprintf("%d %s", c.Thread.TID, c.In.Function)] = c.Samples
			}
		}
	}
	if sum != g.IdleNS {
		t.Errorf("seed %d, GPU %d: the causes add up to %d ns of %d", seed, g.GPU, sum, g.IdleNS)
	}
	if !maps.Equal(got, want.causes) {
		t.Errorf("seed %d, GPU %d: %s", seed, g.GPU, difference(got, want.causes))
	}
	running, samples := int64(0), map[string]int64{}
	for thread, ns := range want.running {
		running += ns
		for stack, n := range want.samples[thread] {
			samples[fmt.Sprintf("%d %s", thread, stack)] = n
		}
	}
	if g.RunningNS != running || !maps.Equal(sampled, samples) {
		t.Errorf("seed %d, GPU %d: %d ns ran, want %d; samples: %s", seed, g.GPU, g.RunningNS, running, difference(sampled, samples))
	}
}

func difference(got, want map[string]int64) (text string) {
	keys := slices.Sorted(maps.Keys(got))
	for key := range want {
		if _, is := got[key]; !is {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if got[key] != want[key] {
			text += fmt.Sprintf("%s: %d, want %d\n", key, got[key], want[key])
		}
	}
	return text
}

// Rows of threads that no recorder writes are refused, or left out; no control character reaches a terminal.
func TestHostileThreads(t *testing.T) {
	for name, statement := range map[string]string{
		"a cycle of stacks": "UPDATE rtl_cpu_stack SET parent_id = id",
		"stacks upwards":    "UPDATE rtl_cpu_stack SET parent_id = id + 1",
		"no frames":         "DELETE FROM rtl_cpu_frame",
		"no stacks":         "DELETE FROM rtl_cpu_stack",
		"no threads":        "DELETE FROM rtl_thread",
		"waits backwards":   "UPDATE rtl_cpu_wait SET in_ns = out_ns - 1",
		"waits for ever":    "UPDATE rtl_cpu_wait SET woken_ns = NULL, in_ns = NULL",
		"least numbers":     "UPDATE rtl_cpu_wait SET out_ns = -9223372036854775808; UPDATE rtl_cpu_sample SET time_ns = -9223372036854775808",
		"greatest numbers":  "UPDATE rtl_cpu_wait SET in_ns = 9223372036854775807, syscall = 9223372036854775807; UPDATE rtl_cpu_window SET cpu_hz = 9223372036854775807",
		"the same time":     "UPDATE rtl_cpu_wait SET out_ns = 1004100000, woken_ns = 1005000000, in_ns = 1006000000",
		"an empty window":   "UPDATE rtl_cpu_window SET ended_ns = begun_ns",
		"windows that overlap": `INSERT INTO rtl_cpu_window(session_id, begun_ns, ended_ns, method_id, cpu_hz, wall_hz, scheduling, least_wait_ns)
			SELECT session_id, begun_ns + 7, ended_ns, method_id, cpu_hz, wall_hz, 0, 0 FROM rtl_cpu_window`,
		"names":               "UPDATE rocpd_string SET string = char(27) || '[2J' || char(8238) || id; UPDATE rtl_thread SET name = char(155) || 'x'",
		"text for a time":     "UPDATE rtl_cpu_sample SET time_ns = 'x'",
		"wakers of all kinds": "UPDATE rtl_cpu_wait SET waker_thread_id = id, waker_pid = -1, waker_tid = -1",
	} {
		t.Run(name, func(t *testing.T) {
			path := tracetest.WriteThreads(t)
			change(t, path, statement)
			r, err := Make(path, Options{Gaps: 5})
			if err != nil {
				t.Log(err)
				return
			}
			must(t, everyForm(r, &harmlessWriter{t}))
			for _, g := range r.WhyIdle.GPUs {
				sum := int64(0)
				for _, c := range g.Causes {
					sum += c.NS
				}
				if sum != g.IdleNS {
					t.Errorf("the causes add up to %d ns of %d", sum, g.IdleNS)
				}
			}
		})
	}
}

// Of eight GPUs seven wait for the thread of the eighth, which is late.
func TestWhyLateSubmitter(t *testing.T) {
	r, err := Make(tracetest.WriteLate(t), Options{})
	must(t, err)
	if len(r.WhyIdle.GPUs) != tracetest.LateGPUs {
		t.Fatalf("%+v", r.WhyIdle)
	}
	for _, g := range r.WhyIdle.GPUs {
		c, thread := g.Causes[0], tracetest.LateThread+g.GPU
		want := fmt.Sprintf("thread %d waited in Rank::barrier (ranks), until thread %d woke it, which was running Rank::load_batch (ranks)", thread, tracetest.LateThread+tracetest.LateGPU)
		if g.GPU == tracetest.LateGPU {
			want = fmt.Sprintf("thread %d was running Rank::load_batch (ranks)", thread)
		}
		if c.Text != want || c.Percent < 90 {
			t.Errorf("GPU %d: %.1f%% %s, want %s", g.GPU, c.Percent, c.Text, want)
		}
	}
}

// Rows that are far from the order of time are sorted, and say the same.
func TestWhyDisorder(t *testing.T) {
	path := tracetest.WriteThreadSteps(t, 3000)
	before, err := Make(path, Options{})
	must(t, err)
	change(t, path, `UPDATE rtl_cpu_sample SET id = -id; UPDATE rtl_cpu_sample SET id = id + 1000000;
		UPDATE rtl_cpu_wait SET id = -id; UPDATE rtl_cpu_wait SET id = id + 1000000`)
	after, err := Make(path, Options{})
	must(t, err)
	if !reflect.DeepEqual(before.WhyIdle, after.WhyIdle) {
		t.Errorf("%+v\n%+v", before.WhyIdle, after.WhyIdle)
	}
}
