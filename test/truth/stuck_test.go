package truth

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/stuck"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// stuckIs runs the tool until what it says of processes is as expected: a workload says that it is ready before it
// hangs. It returns the last report, and fails if hang.Limit is over.
func stuckIs(t *testing.T, pids []int, expected func(*stuck.Report) error) {
	t.Helper()
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ","), "[]")
	for deadline := time.Now().Add(hang.Limit); ; {
		run := harness.Tool(t, "stuck", list, "--json", "-d", "100ms")
		run.MustBe(t, failure.OK)
		r := &stuck.Report{}
		if err := json.Unmarshal([]byte(run.Stdout), r); err != nil {
			t.Fatalf("%v\n%s", err, run.Stdout)
		}
		err := expected(r)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v\n%s", err, run.Stdout)
		}
	}
}

// hanging starts a workload that hangs once it has said that it is ready.
func hanging(t *testing.T, w harness.Workload) *harness.Process {
	t.Helper()
	p := harness.StartCold(t, w)
	p.Ready(t)
	return p
}

// standing returns the queue of a process that has a state, and the thread that is in a function.
func standing(r *stuck.Report, state stuck.State, within string) (*stuck.Queue, *stuck.Thread, error) {
	p := r.Processes[0]
	q := slices.IndexFunc(p.Queues, func(q stuck.Queue) bool { return q.State == state })
	th := slices.IndexFunc(p.Threads, func(th stuck.Thread) bool { return th.Within == within })
	if q < 0 || th < 0 {
		return nil, nil, fmt.Errorf("no queue %s, or no thread in %s", state, within)
	}
	return &p.Queues[q], &p.Threads[th], nil
}

const waitFunction = "hsa_signal_wait_scacquire"

// Each way of hanging is told from outside, and nothing is stopped.
func TestStuck(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for mode, expected := range map[string]func(*stuck.Report) error{
		"barrier": func(r *stuck.Report) error {
			q, th, err := standing(r, stuck.StateSignal, waitFunction)
			if err != nil || th.StackErr != "" || th.Stack[len(th.Stack)-1] != "_start" || !slices.Contains(th.Stack, "main") || q.Read != 1 || q.Write != 3 || q.Packet.Type != "barrier-and" || len(q.Packet.Dependencies) != 2 {
				return fmt.Errorf("%+v, %v", q, err)
			}
			if d := q.Packet.Dependencies; !d[0].Valid || d[0].Value != 0 || !d[1].Valid || d[1].Value != 1 || len(d[1].By) > 0 {
				return fmt.Errorf("%+v, %+v", d[0], d[1])
			}
			if th.Asleep <= r.Processes[0].Watched || th.Asleep > time.Since(began).Seconds() {
				return fmt.Errorf("has not run for %f s, watched for %f s", th.Asleep, r.Processes[0].Watched)
			}
			return nil
		},
		"invalid": func(r *stuck.Report) error {
			q, _, err := standing(r, stuck.StateUnpublished, waitFunction)
			if err != nil || q.Read != 1 || q.Write != 3 {
				return fmt.Errorf("%+v, %v", q, err)
			}
			return nil
		},
		"doorbell": func(r *stuck.Report) error {
			q, th, err := standing(r, stuck.StateAtGPU, waitFunction)
			if err != nil || q.Read != 1 || q.Write != 2 || q.Packet.Kernel == "" || !slices.Equal(q.Packet.Workgroup, []uint16{64}) {
				return fmt.Errorf("%+v, %v", q, err)
			}
			if c := q.Packet.Completion; c.Value != 1 || !slices.Contains(c.Waiters, th.TID) {
				return fmt.Errorf("%+v, thread %d", c, th.TID)
			}
			return nil
		},
		"kernel": func(r *stuck.Report) error {
			waits, _, err := standing(r, stuck.StateSignal, waitFunction)
			if err != nil {
				return err
			}
			runs, _, err := standing(r, stuck.StateRunning, waitFunction)
			if err != nil || len(runs.Running) != 1 || runs.Running[0].Kernel == "" {
				return fmt.Errorf("%+v, %v", runs, err)
			}
			if d := waits.Packet.Dependencies[0]; !slices.Equal(d.By, []stuck.Pending{{Queue: runs.ID, Index: 0}}) {
				return fmt.Errorf("%+v", d)
			}
			return nil
		},
		"mutex": func(r *stuck.Report) error {
			_, th, err := standing(r, stuck.StateRunning, waitFunction)
			if err != nil || !slices.ContainsFunc(r.Processes[0].Threads, func(other stuck.Thread) bool { return other.Holder == th.TID }) {
				return fmt.Errorf("nobody waits for a mutex of the waiting thread: %v", err)
			}
			return nil
		},
		"runtime": hangsInRuntime,
	} {
		target := hanging(t, harness.Workload{Program: "hangs", Args: []string{mode}})
		t.Run(mode, func(t *testing.T) { stuckIs(t, []int{target.PID}, expected) })
	}
}

// hangsInRuntime: two threads wait for a lock of the runtime, which a third one has: the runtime has called the program
// with it.
func hangsInRuntime(r *stuck.Report) error {
	p := r.Processes[0]
	const waits = "hsa_executable_create_alt"
	found := map[string]bool{}
	for _, th := range p.Threads {
		switch {
		case th.TID == p.PID || th.Name == "creator":
			found[th.Name] = th.Within == waits && th.Same && th.Call == "futex" && th.Callback == ""
		case th.Name == "holder":
			found[th.Name] = strings.HasSuffix(th.Callback, "never_returns") && th.Same && th.Call == "pause"
		}
	}
	if p.Blocked() || !found["hangs"] || !found["creator"] || !found["holder"] {
		return fmt.Errorf("as expected: %v, a queue stands: %t", found, p.Blocked())
	}
	return nil
}

// A thread that waits for room in a queue is said to submit to it.
func TestStuckFull(t *testing.T) {
	t.Parallel()
	target := hanging(t, harness.Workload{Program: "hiphangs", Args: []string{"full"}})
	stuckIs(t, []int{target.PID}, func(r *stuck.Report) error {
		for _, q := range r.Processes[0].Queues {
			if slices.Equal(q.Submitters, []int{target.PID}) && q.Write > q.Read {
				return nil
			}
		}
		return fmt.Errorf("no queue to which thread %d submits", target.PID)
	})
}

// A thread that spins in HIP is seen there, and a stopped process is read like any other.
func TestStuckInHIP(t *testing.T) {
	t.Parallel()
	target := hanging(t, harness.Workload{Program: "hiphangs"})
	stuckIs(t, []int{target.PID}, func(r *stuck.Report) error {
		_, _, err := standing(r, stuck.StateBehind, "hipStreamSynchronize")
		return err
	})
	if err := syscall.Kill(target.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stuckIs(t, []int{target.PID}, func(r *stuck.Report) error {
		p := r.Processes[0]
		if i := slices.IndexFunc(p.Threads, func(th stuck.Thread) bool { return th.State == "T" }); i < 0 || len(p.Queues) < 2 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
}

// Of three ranks two are in a collective, and one has not entered it.
func TestStuckRanks(t *testing.T) {
	t.Parallel()
	var pids []int
	for rank := range 3 {
		pids = append(pids, hanging(t, harness.Workload{
			Program: "hangs", Args: []string{"collective"}, Sim: []string{"RANK=" + strconv.Itoa(rank)},
		}).PID)
	}
	stuckIs(t, pids, func(r *stuck.Report) error {
		if len(r.Collective) != 1 || r.Collective[0].Name != "ncclDevKernel_AllReduce_Sum_f32_RING_LL" ||
			!slices.Equal(r.Collective[0].Inside, pids[:2]) || !slices.Equal(r.Collective[0].Outside, pids[2:]) || *r.Processes[2].Rank != 2 {
			return fmt.Errorf("%+v", r.Collective)
		}
		return nil
	})
}

// A ring that the kernel does not let others read is said to be one.
func TestStuckDeviceRing(t *testing.T) {
	t.Parallel()
	target := hanging(t, harness.Workload{Program: "hangs", Args: []string{"invalid"}, Sim: []string{"SOFTGPU_MODE=device-ring"}})
	stuckIs(t, []int{target.PID}, func(r *stuck.Report) error {
		q, _, err := standing(r, stuck.StateUnreadable, waitFunction)
		if err != nil || q.Read != 1 || q.Write != 3 {
			return fmt.Errorf("%+v, %v", q, err)
		}
		return nil
	})
}

// The GIL: who holds it, who waits for it, and where they are, in a process whose stream waits for Python while Python waits
// for the stream. The program's file marks the lines.
func TestStuckGIL(t *testing.T) {
	t.Parallel()
	target := hanging(t, harness.Workload{Program: "pyhangs.py", Under: []string{harness.Python(t)}})
	at := markedLines(t, "pyhangs.py")
	stuckIs(t, []int{target.PID}, func(r *stuck.Report) error {
		p := r.Processes[0]
		if p.Python == nil || len(p.Python.Locks) != 1 || !p.Python.Locks[0].Locked || p.Python.Locks[0].Holder != target.PID || len(p.Python.Locks[0].Waiters) != 2 {
			return fmt.Errorf("%+v", p.Python)
		}
		_, main, err := standing(r, stuck.StateBehind, "hipStreamSynchronize")
		if err != nil {
			return err
		}
		got := callsOf(main)
		want := []string{
			fmt.Sprintf("Trainer.synchronize (pyhangs.py:%d)", at["synchronize"]), fmt.Sprintf("Trainer.step (pyhangs.py:%d)", at["step"]),
			fmt.Sprintf("<module> (pyhangs.py:%d)", at["module"]),
		}
		if main.GIL != "holds" || !slices.Equal(got, want) || !inOrder(main.Stack, "hipStreamSynchronize", want[0], want[1], want[2], "Py_BytesMain") {
			return fmt.Errorf("%v is not %v, or they are not in their places in %v", got, want, main.Stack)
		}
		loader := fmt.Sprintf("Loader.step (pyhangs.py:%d)", at["loader"])
		python, native := 0, 0
		for _, th := range p.Threads {
			switch {
			case th.GIL != "waits":
			case len(th.Python) == 0 && slices.Contains(th.Stack, "PyGILState_Ensure"):
				native++
			case inOrder(th.Stack, "PyEval_RestoreThread", loader, "Thread._bootstrap"):
				python++
			}
		}
		if python != 1 || native != 1 {
			return fmt.Errorf("waiting for the GIL: %d threads of Python in %s, %d of HIP", python, loader, native)
		}
		return nil
	})
}

// callsOf returns a thread's frames of Python as stacks show them.
func callsOf(th *stuck.Thread) (calls []string) {
	for _, c := range th.Python {
		calls = append(calls, fmt.Sprintf("%s (%s:%d)", c.Function, path.Base(c.File), c.Line))
	}
	return calls
}

// inOrder reports whether frames that begin so are in a stack, in this order.
func inOrder(stack []string, frames ...string) bool {
	for _, f := range stack {
		if len(frames) > 0 && strings.HasPrefix(f, frames[0]) {
			frames = frames[1:]
		}
	}
	return len(frames) == 0
}

// markedLines returns the numbers of a program's lines with "# at NAME", by the names.
func markedLines(t *testing.T, program string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(testenv.Artefact(t, filepath.Join("workloads", program)))
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, line := range strings.Split(string(text), "\n") {
		if _, name, ok := strings.Cut(line, "# at "); ok {
			at[name] = i + 1
		}
	}
	return at
}

// While a process is recorded, its queues have the write index that the program sees, how many packets were passed on, and
// who claimed the packet that is missing: a thread that does not return, or one that has ended.
func TestStuckRecorded(t *testing.T) {
	t.Parallel()
	if os.Getenv("RTL_RUNTIME") != "" {
		testenv.Skip(t, "rtl-attach run starts programs of this machine's root only")
	}
	began := time.Now()
	tool, _ := run(t, harness.Workload{Program: "hangs", Args: []string{"producers"}})
	tool.Ready(t)
	pid := 0
	for line := range strings.Lines(tool.Output()) {
		_, _ = fmt.Sscanf(line, "ready pid=%d", &pid)
	}
	if pid <= 1 {
		t.Fatalf("no pid: %s", tool.Output())
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // the recording then ends
	stuckIs(t, []int{pid}, func(r *stuck.Report) error {
		p := r.Processes[0]
		producer := slices.IndexFunc(p.Threads, func(th stuck.Thread) bool { return th.Name == "producer" })
		queues := slices.DeleteFunc(slices.Clone(p.Queues), func(q stuck.Queue) bool { return q.State == stuck.StateIdle }) // one is the runtime's own
		if producer < 0 || len(queues) != 2 {
			return fmt.Errorf("%d queues stand, producer %d", len(queues), producer)
		}
		alive, ended := false, false
		for _, q := range queues {
			if q.State != stuck.StateUnpublished || q.Read != 1 || q.Write != 3 || q.Passed == nil || *q.Passed != 1 || q.Packet.Claim == nil {
				return fmt.Errorf("%+v", q)
			}
			c := q.Packet.Claim
			if c.Age == nil || *c.Age <= 0 || *c.Age > time.Since(began).Seconds() {
				return fmt.Errorf("claimed at an impossible time: %+v", c)
			}
			alive = alive || c.TID == p.Threads[producer].TID && c.Name == "producer" && !c.Ended
			ended = ended || c.Ended && c.TID != 0 && !slices.ContainsFunc(p.Threads, func(th stuck.Thread) bool { return th.TID == c.TID })
		}
		if !alive || !ended || slices.ContainsFunc(p.Unseen, func(what string) bool { return strings.Contains(what, "who wrote") }) {
			return fmt.Errorf("claimed by the producer: %t, by a thread that has ended: %t; not seen: %v", alive, ended, p.Unseen)
		}
		return nil
	})
}
