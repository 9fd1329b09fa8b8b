package harness

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/kind/allocations"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// EmbeddedKinds are the records of the further kinds of one session of librtl's, as the comparisons with a program's own
// log take them.
type EmbeddedKinds struct {
	Session     Session // when it was armed, and ended
	Calls       []APIRecord
	Copies      []Copy
	Allocations []Allocation
	Markers     map[int64][]MarkerCall
	Scratch     []ScratchOperation
}

// RecordedByLibrary makes a workload load testdata/workloads/recorder.cpp, which records it by librtl.
func RecordedByLibrary(t testing.TB, w Workload) Workload {
	t.Helper()
	testenv.Artefact(t, filepath.Join("embed", "librtl.so"))
	recorder := testenv.Artefact(t, "workloads/recorder.so")
	simulator := testenv.Artefact(t, "libsoftgpu.so")
	if given(t) != nil {
		recorder, simulator = filepath.Join(inRootBuild, "workloads/recorder.so"), filepath.Join(inRootBuild, "libsoftgpu.so")
	}
	w.Sim = append(w.Sim, "LD_PRELOAD="+simulator+":"+recorder)
	return w
}

// AskRecorder sends the recorder in a workload a command: start, stop. It must succeed.
func (p *Process) AskRecorder(t testing.TB, command string) {
	t.Helper()
	c, err := net.Dial("unix", fmt.Sprintf("@rtl-recorder-%d", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = errors.Join(c.SetDeadline(time.Now().Add(hang.Limit)), write(c, command))
	said, failed := io.ReadAll(c)
	if err = errors.Join(err, failed); err != nil || strings.TrimSpace(string(said)) != "0" {
		t.Fatalf("%s: %q, %v\n%s", command, said, err, p.Output())
	}
}

func write(to io.Writer, text string) error {
	_, err := io.WriteString(to, text)
	return err
}

// RecorderSessions reads what the recorder in a workload has logged.
func (p *Process) RecorderSessions(t testing.TB) []EmbeddedSession {
	t.Helper()
	all := readEmbeddedLog(t, filepath.Join(filepath.Dir(p.log), "recorder.log"))
	for i := range all {
		all[i].Kinds.sort()
	}
	return all
}

// sort puts the records in the orders that the comparisons expect.
func (k *EmbeddedKinds) sort() {
	slices.SortStableFunc(k.Calls, func(a, b APIRecord) int { return cmp.Compare(a.StartNS, b.StartNS) })
	slices.SortStableFunc(k.Copies, func(a, b Copy) int { return cmp.Compare(a.SubmitNS, b.SubmitNS) })
	slices.SortStableFunc(k.Allocations, func(a, b Allocation) int { return cmp.Compare(a.StartNS, b.StartNS) })
	for _, of := range k.Markers {
		slices.SortStableFunc(of, func(a, b MarkerCall) int { return cmp.Compare(a.BeforeNS, b.BeforeNS) })
	}
}

// APITrace returns the session's calls with accounts in which nothing is lost.
func (k *EmbeddedKinds) APITrace() *APITrace {
	tr := &APITrace{Session: k.Session, Calls: k.Calls, Accounts: map[string]KindAccount{}}
	for _, kind := range apiKinds {
		tr.Accounts[kind] = KindAccount{}
	}
	tr.Settle()
	return tr
}

// add adds a line of recorder.cpp's log.
func (k *EmbeddedKinds) add(line string) error {
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "call":
		return k.call(strings.Fields(rest))
	case "copy":
		return k.copy(rest)
	case "allocation":
		var a Allocation
		_, err := fmt.Sscan(rest, &a.TID, &a.Operation, &a.GPU, &a.Address, &a.Bytes, &a.Status, &a.StartNS, &a.EndNS)
		if k.Allocations = append(k.Allocations, a); a.Operation > allocations.VirtualFree {
			err = errors.New("no operation")
		}
		return err
	case "marker":
		return k.marker(rest)
	case "scratch":
		return k.scratch(rest)
	}
	return errors.New("not a line of the log")
}

// call has the kind, the function, the thread, both times, the result, the out-argument and words.
func (k *EmbeddedKinds) call(f []string) error {
	n := make([]uint64, len(f))
	var err error
	for i, text := range f {
		if i != 1 {
			v, failed := strconv.ParseUint(text, 10, 64)
			n[i], err = v, errors.Join(err, failed)
		}
	}
	if err != nil || len(f) < 7+6 || n[0] < 2 || n[0]-2 >= uint64(len(apiKinds)) {
		return errors.Join(err, errors.New("no call"))
	}
	r := APIRecord{Kind: apiKinds[n[0]-2], Function: f[1], TID: int64(n[2]), StartNS: int64(n[3]), EndNS: int64(n[4]), Result: n[5], Words: n[7:]}
	if n[6] > 0 {
		r.Flags = 1
	}
	k.Calls = append(k.Calls, r)
	return nil
}

func (k *EmbeddedKinds) copy(rest string) error {
	var c Copy
	var reason int
	if _, err := fmt.Sscan(rest, &c.TID, &c.From, &c.To, &c.Bytes, &reason, &c.SubmitNS, &c.StartNS, &c.EndNS); err != nil {
		return err
	}
	if reason < 0 || reason >= len(tracedb.Reasons) {
		return errors.New("no reason")
	}
	c.Reason = tracedb.Reasons[reason].Name
	if c.From >= 0 { // the host, or a GPU
		c.Direction |= 2
	}
	if c.To >= 0 {
		c.Direction |= 1
	}
	k.Copies = append(k.Copies, c)
	return nil
}

func (k *EmbeddedKinds) marker(rest string) error {
	f := strings.SplitN(rest, " ", 6)
	var c MarkerCall
	var tid, cut int64
	if len(f) != 6 {
		return errors.New("no marker")
	}
	if _, err := fmt.Sscan(strings.Join(f[:5], " "), &tid, &c.Operation, &c.Range, &c.BeforeNS, &cut); err != nil {
		return err
	}
	c.AfterNS, c.Text = c.BeforeNS, f[5]
	if cut != 0 {
		c.Text += "…"
	}
	if k.Markers == nil {
		k.Markers = map[int64][]MarkerCall{}
	}
	k.Markers[tid] = append(k.Markers[tid], c)
	return nil
}

// scratchWhat are the operations, whose begins and ends alternate.
var scratchWhat = []string{"allocate", "free", "reclaim"}

// scratch makes an operation of its begin and its end, which follow each other on a thread.
func (k *EmbeddedKinds) scratch(rest string) error {
	var o ScratchOperation
	var event int
	var atNS int64
	if _, err := fmt.Sscan(rest, &o.TID, &event, &o.Queue, &o.Bytes, &o.Slots, &o.Index, &atNS); err != nil {
		return err
	}
	if event < 0 || event/2 >= len(scratchWhat) {
		return errors.New("no operation")
	}
	o.What = scratchWhat[event/2]
	if event%2 == 0 {
		o.StartNS = atNS
		k.Scratch = append(k.Scratch, o)
		return nil
	}
	o.EndNS = atNS
	for i := len(k.Scratch) - 1; i >= 0; i-- {
		if begun := &k.Scratch[i]; begun.TID == o.TID && begun.What == o.What && begun.EndNS == 0 {
			o.StartNS = begun.StartNS
			*begun = o
			return nil
		}
	}
	k.Scratch = append(k.Scratch, o) // it began before the session
	return nil
}
