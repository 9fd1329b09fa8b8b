package truth

import (
	"encoding/json"
	"fmt"
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
	"github.com/rtl-attach/rtl-attach/test/simulator"
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
	for mode, expected := range map[string]func(*stuck.Report) error{
		"barrier": func(r *stuck.Report) error {
			q, th, err := standing(r, stuck.StateSignal, waitFunction)
			if err != nil || th.StackErr != "" || th.Stack[len(th.Stack)-1] != "_start" || !slices.Contains(th.Stack, "main") || q.Read != 1 || q.Write != 3 || q.Packet.Type != "barrier-and" || len(q.Packet.Dependencies) != 2 {
				return fmt.Errorf("%+v, %v", q, err)
			}
			if d := q.Packet.Dependencies; !d[0].Valid || d[0].Value != 0 || !d[1].Valid || d[1].Value != 1 || len(d[1].By) > 0 {
				return fmt.Errorf("%+v, %+v", d[0], d[1])
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
	} {
		target := simulator.Start(t, simulator.Workload{Program: "hangs", Args: []string{mode}})
		t.Run(mode, func(t *testing.T) { stuckIs(t, []int{target.PID}, expected) })
	}
}

// A thread that spins in HIP is seen there, and a stopped process is read like any other.
func TestStuckInHIP(t *testing.T) {
	t.Parallel()
	target := simulator.Start(t, simulator.Workload{Program: "hiphangs"})
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
		pids = append(pids, simulator.Start(t, simulator.Workload{
			Program: "hangs", Args: []string{"collective"}, Env: []string{"RANK=" + strconv.Itoa(rank)},
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
	target := simulator.Start(t, simulator.Workload{Program: "hangs", Args: []string{"invalid"}, Env: []string{"SOFTGPU_MODE=device-ring"}})
	stuckIs(t, []int{target.PID}, func(r *stuck.Report) error {
		q, _, err := standing(r, stuck.StateUnreadable, waitFunction)
		if err != nil || q.Read != 1 || q.Write != 3 {
			return fmt.Errorf("%+v, %v", q, err)
		}
		return nil
	})
}
