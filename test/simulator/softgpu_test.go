package simulator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/simulator"
)

var modes = []string{"", "eager", "late", "prefetch", "ts-late", "stale-index", "eager,prefetch", "late,prefetch,ts-late", "eager,stale-index"}

// TestStressEveryMode: whatever the GPU is like, each dispatch of each kind of
// producer executes once.
func TestStressEveryMode(t *testing.T) {
	for _, mode := range modes {
		t.Run("mode="+mode, func(t *testing.T) {
			v := simulator.Start(t, simulator.Workload{
				Program: "hsastress",
				Args:    []string{"--threads", "10", "--queues", "3", "--ring", "64", "--seconds", "1"},
				Env:     []string{"SOFTGPU_MODE=" + mode, "SOFTGPU_GPUS=2"},
			})
			counts := v.Wait()
			records := v.Truth()
			if err := simlog.ExactlyOnce(records, counts); err != nil {
				t.Error(err)
			}
			checkTimes(t, records)
			checkPackets(t, records)
		})
	}
}

func TestEngineAsThread(t *testing.T) {
	v := simulator.Start(t, simulator.Workload{
		Program: "hsastress",
		Args:    []string{"--seconds", "1"},
		Env:     []string{"SOFTGPU_ENGINE=thread"},
	})
	counts := v.Wait()
	if err := simlog.ExactlyOnce(v.Truth(), counts); err != nil {
		t.Error(err)
	}
}

// TestCycles: hsa_init .. hsa_shut_down, several times in one process.
func TestCycles(t *testing.T) {
	v := simulator.Start(t, simulator.Workload{
		Program: "hsastress",
		Args:    []string{"--cycles", "4", "--seconds", "2", "--slow-raw", "500"},
	})
	counts := v.Wait()
	if err := simlog.ExactlyOnce(v.Truth(), counts); err != nil {
		t.Error(err)
	}
}

// TestEagerNeedsNoDoorbell, and only an eager GPU does not.
func TestEagerNeedsNoDoorbell(t *testing.T) {
	args := []string{"--doorbell", "0", "--seconds", "1", "--threads", "3"}
	v := simulator.Start(t, simulator.Workload{Program: "hsastress", Args: args, Env: []string{"SOFTGPU_MODE=eager"}})
	counts := v.Wait()
	if err := simlog.ExactlyOnce(v.Truth(), counts); err != nil {
		t.Error(err)
	}

	v = simulator.Start(t, simulator.Workload{Program: "hsastress", Args: append(args, "--hang", "2")})
	if line := v.Line(); !strings.HasPrefix(line, "HANG") {
		t.Errorf("without a doorbell: %q", line)
	}
}

// TestServe: HIP with graphs, events and copies over two GPUs.
func TestServe(t *testing.T) {
	for _, mode := range []string{"", "late,prefetch"} {
		t.Run("mode="+mode, func(t *testing.T) {
			v := simulator.Start(t, simulator.Workload{
				Program: "serve",
				Args:    []string{"--busy-threads", "10", "--seconds", "600"},
				Env:     []string{"SOFTGPU_MODE=" + mode, "SOFTGPU_GPUS=2"},
			})
			if got := v.Get("/generate?kernels=5"); got != "generated 5\n" {
				t.Errorf("generate: %q", got)
			}
			if got := v.Get("/health"); !regexp.MustCompile(`^ok \d+ \d+\n$`).MatchString(got) {
				t.Errorf("health: %q", got)
			}
			for requests := 0; requests < 200; {
				fmt.Sscanf(v.Get("/health"), "ok %d %d", new(int), &requests)
			}
			v.Get("/quit")
			counts := v.Wait()
			records := v.Truth()
			if err := simlog.ExactlyOnce(records, counts); err != nil {
				t.Error(err)
			}
			if counts[200] != 5 {
				t.Errorf("/generate launched %d kernels", counts[200])
			}
			checkTimes(t, records)
			checkPackets(t, records)
			checkNames(t, records)
			checkServed(t, records, v.Report())
		})
	}
}

// TestViolations: each detector speaks up.
func TestViolations(t *testing.T) {
	for kind, c := range map[string]struct {
		mode string
		want simlog.Code
	}{
		"backward":        {"prefetch", simlog.IndexBackward},
		"wild":            {"prefetch", simlog.IndexWild},
		"reexecute":       {"prefetch", simlog.Reexecuted},
		"move-read-index": {"prefetch", simlog.ReadMoved},
		"change-packet":   {"prefetch", simlog.Changed},
		"lock-slot":       {"no-locks", simlog.Locked},
		"exchange-slot":   {"no-locks", simlog.Locked},
	} {
		t.Run(kind, func(t *testing.T) {
			v := simulator.Start(t, simulator.Workload{
				Program: "violate",
				Args:    []string{kind},
				Env:     []string{"SOFTGPU_MODE=" + c.mode},
			})
			v.Wait()
			for _, r := range simlog.Violations(v.RawTruth()) {
				if r.Code == c.want {
					return
				}
			}
			t.Errorf("no %v in the log", c.want)
		})
	}
}

// TestProcesses: fork, worker processes, exec and closefrom; and a packet with
// words in it that are not the workload's.
func TestProcesses(t *testing.T) {
	for _, mode := range []string{"fork", "workers", "closefrom", "stray"} {
		t.Run(mode, func(t *testing.T) {
			v := simulator.Start(t, simulator.Workload{Program: "probe", Args: []string{mode}})
			counts := v.Wait()
			records := v.Truth()
			if err := simlog.ExactlyOnce(records, counts); err != nil {
				t.Error(err)
			}
			for _, r := range records {
				if r.UniqueID != 0 && r.Name == "" {
					t.Errorf("no name: %v", r)
				}
			}
		})
	}
	t.Run("exec", func(t *testing.T) {
		v := simulator.Start(t, simulator.Workload{Program: "probe", Args: []string{"exec"}})
		if line := v.Line(); line != "after exec" {
			t.Fatalf("got %q", line)
		}
		// The log is complete while the process lives on: its engine has ended.
		if err := simlog.ExactlyOnce(v.Truth(), simlog.Counts{1: 1}); err != nil {
			t.Error(err)
		}
		v.Ask("")
	})
}

// TestTimes: the runtime translates the GPU's ticks back to the times in the log.
func TestTimes(t *testing.T) {
	const toleranceNS = 100 // the translation's slope is measured, not known
	v := simulator.Start(t, simulator.Workload{Program: "probe", Args: []string{"times"}})
	said := map[uint64][2]uint64{}
	for {
		var id, start, end uint64
		if n, _ := fmt.Sscanf(v.Line(), "%d %d %d", &id, &start, &end); n != 3 {
			break
		}
		said[id] = [2]uint64{start, end}
	}
	near := func(a, b uint64) bool { return max(a, b)-min(a, b) <= toleranceNS }
	checked := 0
	for _, r := range v.Truth() {
		if s, ok := said[r.UniqueID]; ok {
			if !near(s[0], r.StartNS) || !near(s[1], r.EndNS) || r.Flags&simlog.Profiled == 0 {
				t.Errorf("runtime says %v: %v", s, r)
			}
			checked++
		}
	}
	if checked == 0 || checked != len(said) {
		t.Errorf("%d of %d kernels are in the log", checked, len(said))
	}
}

// TestKill: the engine outlives its target only to finish the log.
func TestKill(t *testing.T) {
	v := simulator.Start(t, simulator.Workload{Program: "hsastress", Args: []string{"--seconds", "600"}})
	for dispatches := 0; dispatches < 10000; {
		fmt.Sscanf(v.Get("/health"), "ok %d", &dispatches)
	}
	engines := enginesOf(t, v.PID)
	if len(engines) != 1 {
		t.Fatalf("engines of %d: %v", v.PID, engines)
	}
	v.Kill()
	if records := v.Truth(); len(records) < 10000 {
		t.Errorf("%d records", len(records))
	}
	for alive(engines[0]) { // it gives up the log's lock just before its end
		runtime.Gosched()
	}
}

// alive: neither gone nor left as a zombie by an init that does not reap.
func alive(statFile string) bool {
	stat, err := os.ReadFile(statFile)
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestRunsWhileStopped: a stop of all threads of the target is none of the GPU.
func TestRunsWhileStopped(t *testing.T) {
	v := simulator.Start(t, simulator.Workload{
		Program: "hsastress",
		Args:    []string{"--threads", "1", "--queues", "1", "--kind", "0", "--kernel-ns", "2800000", "--seconds", "2"},
	})
	for dispatches := 0; dispatches < 130; { // the third round of 64 is being queued
		fmt.Sscanf(v.Get("/health"), "ok %d", &dispatches)
	}
	v.Signal(syscall.SIGSTOP)
	stopped := bootTimeNS()
	for !startedAfter(t, v.Log, stopped+10e6) {
		if bootTimeNS() > stopped+10e9 {
			t.Fatal("no kernel started while the target was stopped")
		}
	}
	v.Signal(syscall.SIGCONT)
	counts := v.Wait()
	if err := simlog.ExactlyOnce(v.Truth(), counts); err != nil {
		t.Error(err)
	}
}

func startedAfter(t *testing.T, log string, ns uint64) bool {
	t.Helper()
	records, err := simlog.Read(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.StartNS > ns {
			return true
		}
	}
	return false
}

func bootTimeNS() uint64 {
	const clockBoottime = 7
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}

// enginesOf returns the stat files of the engine processes whose parent is pid.
func enginesOf(t *testing.T, pid int) []string {
	t.Helper()
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // gone meanwhile
		}
		if strings.Contains(string(stat), fmt.Sprintf("(softgpu-engine) S %d ", pid)) ||
			strings.Contains(string(stat), fmt.Sprintf("(softgpu-engine) R %d ", pid)) {
			found = append(found, file)
		}
	}
	return found
}

// checkTimes: every record ends after it starts, on a tick.
func checkTimes(t *testing.T, records []*simlog.Record) {
	t.Helper()
	const tickNS = 10
	for _, r := range records {
		if r.Kind != simlog.Violation && (r.EndNS < r.StartNS+tickNS || r.StartNS%tickNS != 0 || r.EndNS%tickNS != 0) {
			t.Fatalf("times: %v", r)
		}
	}
}

// checkPackets: packet ids of each queue are 0, 1, 2, … without a hole.
func checkPackets(t *testing.T, records []*simlog.Record) {
	t.Helper()
	// Queues are freed and created again at the same address; the id tells them apart.
	type queue struct {
		pid         int
		address, id uint64
	}
	queues := map[queue][]*simlog.Record{}
	for _, r := range records {
		if r.Queue != 0 && r.Kind != simlog.Violation {
			q := queue{r.PID, r.Queue, r.QueueID}
			queues[q] = append(queues[q], r)
		}
	}
	for _, ran := range queues {
		for i, r := range simlog.ByPacket(ran) {
			if r.Packet != uint64(i) {
				t.Fatalf("packet %d, want %d: %v", r.Packet, i, r)
			}
		}
	}
}

// checkServed: what serve counts besides its launches. The kernels of its graph
// have no id, but nobody else launches them; each request copies in and out.
func checkServed(t *testing.T, records []*simlog.Record, r simulator.Report) {
	t.Helper()
	var graph, copies uint64
	for _, rec := range records {
		if strings.HasPrefix(rec.Name, "_ZN6decode") {
			graph++
		}
		if rec.Kind == simlog.Copy && rec.Bytes == 4096 {
			copies++
		}
	}
	if graph != r.GraphKernels || graph == 0 {
		t.Errorf("%d graph kernels in the log, serve counts %d", graph, r.GraphKernels)
	}
	if copies < 2*r.Requests {
		t.Errorf("%d copies in the log for %d requests", copies, r.Requests)
	}
}

// checkNames: every dispatch with an id is one of our kernels, and all are there.
func checkNames(t *testing.T, records []*simlog.Record) {
	t.Helper()
	names := map[string]int{}
	for _, r := range records {
		if r.UniqueID != 0 {
			names[r.Name]++
		}
	}
	if len(names) != 8 || names[""] != 0 {
		t.Errorf("kernels: %v", names)
	}
}
