package harness

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// Key identifies a queue during the life of its process.
type Key struct {
	Address uint64 // hsa_queue_t*
	ID      uint64 // hsa_queue_t.id
}

// Log has the packets that one process's GPUs executed, by queue and packet.
type Log struct {
	Queues     map[Key][]*simlog.Record // sorted by packet
	PID        int
	Kernels    int
	Violations []*simlog.Record
	Writers    []uint64 // SOFTGPU_MODE=no-locks: instructions that wrote into rings
	Once       simlog.Once
}

// HasLog reports whether the simulator has written a log: of a process that makes no queue it writes none.
func (p *Process) HasLog() bool {
	_, err := os.Stat(p.log)
	return err == nil
}

// Truth reads the log of a workload that has ended.
func (p *Process) Truth(t testing.TB) *Log {
	t.Helper()
	if err := simlog.Wait(p.log); err != nil {
		t.Fatal(err)
	}
	l := &Log{Queues: map[Key][]*simlog.Record{}}
	for r, err := range simlog.All(p.log) {
		if err != nil {
			t.Fatal(err)
		}
		l.add(r)
	}
	for key, records := range l.Queues {
		records = simlog.ByPacket(records)
		l.Queues[key] = records
		for i := 1; i < len(records); i++ {
			if records[i].Packet == records[i-1].Packet {
				t.Errorf("queue %#x id %d: packet %d is in the log twice:\n%v\n%v", key.Address, key.ID, records[i].Packet, records[i-1], records[i])
				break
			}
		}
	}
	return l
}

func (l *Log) add(r *simlog.Record) {
	switch {
	case r.Kind == simlog.Violation:
		if r.Code == simlog.Writer {
			l.Writers = append(l.Writers, r.Value[0])
		}
		if !r.Code.IsNotice() {
			l.Violations = append(l.Violations, r)
		}
		return
	case r.Queue == 0 || r.Flags&simlog.Internal != 0:
		return // SDMA, or a queue of the runtime's own that no API call sees
	case r.Kind == simlog.Kernel:
		l.Kernels++
		l.Once.Add(r)
	}
	l.PID = r.PID
	key := Key{r.Queue, r.QueueID}
	l.Queues[key] = append(l.Queues[key], r)
}

// at returns the index of a packet in its queue's records, or -1.
func at(records []*simlog.Record, packet uint64) int {
	if packet < uint64(len(records)) && records[packet].Packet == packet {
		return int(packet) // the usual case: nothing is missing before it
	}
	i, found := slices.BinarySearchFunc(records, packet, func(r *simlog.Record, packet uint64) int {
		return cmp.Compare(r.Packet, packet)
	})
	if !found {
		return -1
	}
	return i
}

// MustHoldOnce checks that every dispatch was executed once and that the queue protocol was not
// violated.
func (l *Log) MustHoldOnce(t testing.TB, counts simlog.Counts) {
	t.Helper()
	for i, v := range l.Violations {
		if i == 5 {
			break
		}
		t.Errorf("violation: %v", v)
	}
	if len(l.Violations) > 0 {
		t.Errorf("%d violations of the queue protocol", len(l.Violations))
	}
	if err := l.Once.Check(counts); err != nil {
		t.Errorf("not executed exactly once: %v", err)
	}
}
