package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Embedding returns a program of build/workloads, or of another folder below build, that records itself by librtl.
func Embedding(t testing.TB, program string, args ...string) Workload {
	t.Helper()
	library := testenv.Artefact(t, filepath.Join("embed", "librtl.so"))
	return Workload{Program: program, Args: args, Sim: []string{"LD_LIBRARY_PATH=" + filepath.Dir(library)}}
}

// EmbeddedSession is what the callbacks of a program got from one session.
type EmbeddedSession struct {
	Kernels []EmbeddedKernel
	Lost    uint64
	Why     int    // it ended: RTL_ENDED_ of rtl.h
	Ended   bool   // the end was said
	Unread  uint64 // the end said so: records that did not reach the library's thread

	Kinds EmbeddedKinds // of the workloads that recorder.cpp records
}

// EmbeddedKernel is one record of kernels: one with times, or some without.
type EmbeddedKernel struct {
	Queue, Index, Count uint64
	StartNS, EndNS      uint64
	Name                string
	Untimed             bool
}

// EmbeddedSessions reads the log of the workload "embedded", which has ended.
func (p *Process) EmbeddedSessions(t testing.TB) []EmbeddedSession {
	t.Helper()
	return readEmbeddedLog(t, p.calls)
}

func readEmbeddedLog(t testing.TB, path string) (all []EmbeddedSession) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if fields[0] == "S" {
			all = append(all, EmbeddedSession{})
			continue
		}
		if fields[0] == "F" { // it could not begin
			all = all[:len(all)-1]
			continue
		}
		if len(all) == 0 {
			t.Fatalf("%q before the first session", lines.Text())
		}
		if err := all[len(all)-1].add(lines.Text(), fields); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
	}
	return all
}

func (s *EmbeddedSession) add(line string, fields []string) error {
	if len(fields[0]) > 1 {
		return s.Kinds.add(line)
	}
	n := make([]uint64, len(fields))
	for i := 1; i < len(fields) && i < 5; i++ {
		v, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return err
		}
		n[i] = v
	}
	switch {
	case fields[0] == "D" && len(fields) == 7:
		s.Kernels = append(s.Kernels, EmbeddedKernel{Queue: n[1], Index: n[2], Count: 1, StartNS: n[3], EndNS: n[4], Name: fields[6]})
	case fields[0] == "U" && len(fields) == 5:
		s.Kernels = append(s.Kernels, EmbeddedKernel{Queue: n[1], Index: n[2], Count: n[3], Untimed: true})
	case fields[0] == "L" && len(fields) == 2:
		s.Lost += n[1]
	case fields[0] == "E" && (len(fields) == 3 || len(fields) == 5):
		s.Why, s.Ended, s.Unread = int(n[1]), true, n[2]
		if len(fields) == 5 {
			s.Kinds.Session = Session{ArmedNS: int64(n[3]), DetachedNS: int64(n[4])}
		}
	default:
		return fmt.Errorf("not a line of the log")
	}
	return nil
}

// PrintedKernels reads the lines of the examples: "kernel gpu 0 queue 0x1 packet 2 3..4 name".
func PrintedKernels(t testing.TB, output string) []EmbeddedKernel {
	t.Helper()
	var all []EmbeddedKernel
	for line := range strings.Lines(output) {
		var k EmbeddedKernel
		var gpu int
		if !strings.HasPrefix(line, "kernel ") {
			continue
		}
		if _, err := fmt.Sscanf(line, "kernel gpu %d queue %v packet %d %d..%d %s", &gpu, &k.Queue, &k.Index, &k.StartNS, &k.EndNS, &k.Name); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		k.Count = 1
		all = append(all, k)
	}
	return all
}

// CompareEmbedded compares the records of one program's sessions with the simulator's log: each was executed on that
// queue, with that kernel and those times, none is there twice, and none is missing between two of its queue, unless the
// session says that records were lost. It returns the number of kernels with times.
func CompareEmbedded(t testing.TB, log *Log, sessions ...EmbeddedSession) int {
	t.Helper()
	queues := map[uint64][]*simlog.Record{}
	for key, records := range log.Queues {
		if queues[key.Address] != nil {
			t.Fatalf("queue %#x was created twice: the comparison does not know that", key.Address)
		}
		queues[key.Address] = records
	}
	seen := map[[2]uint64]bool{}
	timed := 0
	for i := range sessions {
		missing := compareSession(t, queues, &sessions[i], seen)
		if missing > int(sessions[i].Lost) {
			t.Errorf("session %d: %d kernels are missing, and it says that %d records were lost", i+1, missing, sessions[i].Lost)
		}
		for _, k := range sessions[i].Kernels {
			if !k.Untimed {
				timed++
			}
		}
	}
	return timed
}

func compareSession(t testing.TB, queues map[uint64][]*simlog.Record, s *EmbeddedSession, seen map[[2]uint64]bool) (missing int) {
	t.Helper()
	type span struct{ first, last uint64 }
	spans := map[uint64]span{}
	for _, k := range s.Kernels {
		matchEmbedded(t, queues[k.Queue], k)
		for i := k.Index; i < k.Index+k.Count; i++ {
			if seen[[2]uint64{k.Queue, i}] {
				t.Errorf("packet %d of queue %#x is recorded twice", i, k.Queue)
			}
			seen[[2]uint64{k.Queue, i}] = true
		}
		at, known := spans[k.Queue]
		if !known {
			at = span{k.Index, k.Index}
		}
		spans[k.Queue] = span{min(at.first, k.Index), max(at.last, k.Index+k.Count-1)}
	}
	for queue, at := range spans {
		for _, r := range queues[queue] {
			if r.Kind == simlog.Kernel && r.Packet >= at.first && r.Packet <= at.last && !seen[[2]uint64{queue, r.Packet}] {
				missing++
			}
		}
	}
	return missing
}

func matchEmbedded(t testing.TB, records []*simlog.Record, k EmbeddedKernel) {
	t.Helper()
	if k.Untimed {
		return
	}
	i := at(records, k.Index)
	if i < 0 || records[i].Kind != simlog.Kernel {
		t.Errorf("%+v is not in the simulator's log", k)
		return
	}
	r := records[i]
	start, end := int64(k.StartNS)-int64(r.StartNS), int64(k.EndNS)-int64(r.EndNS)
	if max(start, -start, end, -end) > toleranceNS {
		t.Errorf("%+v: the times are off by %d and %d ns: %v", k, start, end, r)
	}
	if r.Name != "" && r.Name != k.Name {
		t.Errorf("%+v: another kernel: %v", k, r)
	}
}

// EmbeddedStats is what the workload "embedded" says of itself.
type EmbeddedStats struct {
	Sessions, Active, Exceptions, Lost, Dropped, Unknown uint64
	Logged, Batched, Wrong, Thrown, Late                 uint64
}

// EmbeddedStats asks it.
func (p *Process) EmbeddedStats(t testing.TB) EmbeddedStats {
	t.Helper()
	var s EmbeddedStats
	if err := json.Unmarshal([]byte(p.MustGet(t, "/stats")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// MustGet asks the workload's server and returns its answer without the line's end.
func (p *Process) MustGet(t testing.TB, path string) string {
	t.Helper()
	text, err := p.Get(path)
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, p.Output())
	}
	return strings.TrimSpace(text)
}
