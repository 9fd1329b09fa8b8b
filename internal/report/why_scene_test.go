package report

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A cpuScene is a random trace of threads that run, block, wake each other and submit kernels to GPUs, with the
// state of each thread at each ns.
type cpuScene struct {
	path    string
	baseNS  int64
	length  int64
	window  span               // in which threads were observed
	kernels []cpuKernel        // of all GPUs
	state   [][]threadState    // by thread, and by ns since baseNS
	samples []map[int64]string // of each thread that ran: the stack, by ns since baseNS
}

type cpuKernel struct{ gpu, start, end, submit, thread int64 }

// threadState is what a thread did at one ns; waker: -1: not known.
type threadState struct {
	state string
	stack int64
	waker int
}

// cpuThreads submit kernels; one more only wakes.
const (
	cpuThreads = 3
	cpuGPUs    = 2
	cpuStacks  = 5
)

func inventThreads(t *testing.T, random *rand.Rand) *cpuScene {
	t.Helper()
	sc := &cpuScene{baseNS: 1_000_000, length: 6000}
	sc.window = span{sc.baseNS + random.Int64N(500), sc.baseNS + sc.length - random.Int64N(500)}
	var waits []inventedWait
	for thread := range cpuThreads + 1 {
		waits = append(waits, sc.inventThread(random, thread)...)
	}
	var rows []string
	for _, w := range waits {
		rows = append(rows, sc.row(random, w)...)
	}
	db, path := create(t)
	sc.path = path
	s := begin(t, db, 41220, "engine")
	must(t, s.Agent(tracedb.Agent{ID: 2, GPU: 1, Name: "gfx942", BDF: 0x400}), s.Queue(tracedb.Queue{ID: 2, Agent: 2, HSAID: 4}))
	for gpu := range int64(cpuGPUs) {
		sc.inventKernels(t, random, s, gpu)
	}
	must(t, s.End(tracedb.End{Reason: "detached", ArmedNS: uint64(sc.baseNS), DetachedNS: uint64(sc.baseNS + sc.length)}), db.Close())
	sc.write(t, rows)
	return sc
}

// inventedWait is a wait in ns since baseNS.
type inventedWait struct {
	thread                int
	out, woken, in, stack int64
	preempted             bool
}

// inventThread invents the states of a thread, its samples and its waits.
func (sc *cpuScene) inventThread(random *rand.Rand, thread int) (waits []inventedWait) {
	states, samples := make([]threadState, sc.length), map[int64]string{}
	at, isBlocked := int64(0), random.IntN(2) == 0
	for at < sc.length {
		n := 1 + random.Int64N(120)
		if !isBlocked {
			for i := at; i < min(at+n, sc.length); i++ {
				states[i] = threadState{"running", 0, -1}
				if random.IntN(9) == 0 && sc.observed(i) {
					samples[i] = fmt.Sprint(1 + random.IntN(cpuStacks))
				}
			}
			at, isBlocked = at+n, true
			continue
		}
		w := inventedWait{thread, at, at + random.Int64N(n+1), at + n, 1 + random.Int64N(cpuStacks), random.IntN(4) == 0}
		if w.preempted {
			w.woken = at
		}
		for i := at; i < min(at+n, sc.length); i++ {
			states[i] = threadState{"blocked", w.stack, -1}
			if i >= w.woken {
				states[i] = threadState{"ready", w.stack, -1}
			}
		}
		waits, at, isBlocked = append(waits, w), at+n, false
	}
	sc.state, sc.samples = append(sc.state, states), append(sc.samples, samples)
	return waits
}

// row gives a wait a waker that ran then, and returns its row if the window has a part of it.
func (sc *cpuScene) row(random *rand.Rand, w inventedWait) (rows []string) {
	if sc.baseNS+w.out >= sc.window.endNS || sc.baseNS+w.in <= sc.window.beginNS {
		return nil
	}
	cell := func(at int64) string {
		if sc.baseNS+at >= sc.window.endNS {
			return "NULL"
		}
		return fmt.Sprint(max(sc.baseNS+at, sc.window.beginNS))
	}
	by, woken, state := "NULL", cell(w.woken), 1
	if w.preempted {
		woken, state = "NULL", 0
	} else if waker := random.IntN(cpuThreads + 1); waker != w.thread && woken != "NULL" && sc.state[waker][w.woken].state == "running" {
		by = fmt.Sprintf("(SELECT id FROM rtl_thread WHERE tid = %d)", 101+waker)
		for i := w.out; i < w.woken; i++ {
			sc.state[w.thread][i].waker = waker
		}
	}
	return []string{fmt.Sprintf("(1, (SELECT id FROM rtl_thread WHERE tid = %d), %s, %s, %s, %d, 202, 0, 0, %s, NULL, NULL, %d)",
		101+w.thread, cell(w.out), woken, cell(w.in), state, by, w.stack)}
}

// inventKernels invents kernels of one GPU. Each is submitted while its thread ran.
func (sc *cpuScene) inventKernels(t *testing.T, random *rand.Rand, s *tracedb.Session, gpu int64) {
	t.Helper()
	var batch []tracedb.Dispatch
	at := int64(10)
	for index := uint64(0); ; index++ {
		start := at + random.Int64N(300)
		end := start + 1 + random.Int64N(60)
		if end >= sc.length {
			break
		}
		thread := random.IntN(cpuThreads)
		submit := start - random.Int64N(start-max(0, start-150))
		for submit > 0 && (sc.state[thread][submit].state != "running" || sc.state[thread][submit-1].state != "running") {
			submit--
		}
		k := cpuKernel{gpu, sc.baseNS + start, sc.baseNS + end, sc.baseNS + submit, int64(thread)}
		d := tracedb.Dispatch{
			Queue: uint32(gpu) + 1, Launch: 1, TID: uint32(101 + thread), Index: index, StartNS: uint64(k.start), EndNS: uint64(k.end), SubmitNS: uint64(k.submit),
		}
		if submit == 0 || random.IntN(9) == 0 {
			d.SubmitNS, k.submit = 0, -1
		}
		sc.kernels, batch = append(sc.kernels, k), append(batch, d)
		at = end - random.Int64N(10)
		if at <= start {
			at = start + 1
		}
	}
	must(t, s.Dispatches(batch))
}

func (sc *cpuScene) write(t *testing.T, waits []string) {
	t.Helper()
	db, err := sql.Open("sqlite3", sc.path)
	must(t, err)
	defer db.Close()
	tx, err := db.Begin()
	must(t, err)
	defer func() { must(t, tx.Commit()) }()
	run := func(query string, args ...any) {
		_, err := tx.Exec(query, args...)
		must(t, err)
	}
	for thread := range cpuThreads + 1 {
		run("INSERT INTO rtl_thread(session_id, tid, name) SELECT 1, ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM rtl_thread WHERE tid = ?1)", 101+thread, fmt.Sprintf("t%d", thread))
	}
	run("INSERT OR IGNORE INTO rocpd_string(string) VALUES('bpf'), ('app.py')")
	run(`INSERT INTO rtl_cpu_window(session_id, begun_ns, ended_ns, method_id, cpu_hz, wall_hz, scheduling, least_wait_ns)
		VALUES(1, ?, ?, (SELECT id FROM rocpd_string WHERE string = 'bpf'), 999, 0, 1, 0)`, sc.window.beginNS, sc.window.endNS)
	for i := 1; i <= cpuStacks; i++ {
		run("INSERT OR IGNORE INTO rocpd_string(string) VALUES(?)", fmt.Sprintf("f%d", i))
		run(`INSERT INTO rtl_cpu_frame(id, session_id, kind, name_id, file_id, line) VALUES(?1, 1, 1, (SELECT id FROM rocpd_string WHERE string = ?2),
			(SELECT id FROM rocpd_string WHERE string = 'app.py'), ?1)`, i, fmt.Sprintf("f%d", i))
		run("INSERT INTO rtl_cpu_stack(id, session_id, frame_id, cut) VALUES(?1, 1, ?1, 0)", i)
	}
	for thread, samples := range sc.samples {
		for at := range sc.length {
			if stack, is := samples[at]; is {
				run(`INSERT INTO rtl_cpu_sample(session_id, thread_id, time_ns, clock, state, stack_id)
					VALUES(1, (SELECT id FROM rtl_thread WHERE tid = ?), ?, 0, 0, ?)`, 101+thread, sc.baseNS+at, stack)
			}
		}
	}
	for _, row := range waits {
		run(`INSERT INTO rtl_cpu_wait(session_id, thread_id, out_ns, woken_ns, in_ns, state, syscall, argument0, argument1,
			waker_thread_id, waker_pid, waker_tid, stack_id) VALUES` + row)
	}
}
