package harness

import (
	"cmp"
	"database/sql"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// launchCall is the operation of a launch in the log of torchlike.py: its text is the kernel's symbol.
const launchCall = 5

// TorchLike is the training loop in Python, with a library of ROCTx. Without Python the test is left out.
func TorchLike(t testing.TB, library string, args ...string) Workload {
	t.Helper()
	return Workload{Program: "torchlike.py", Args: args, Under: []string{Python(t)}, Sim: []string{"RTL_ROCTX=" + library}, LogsCalls: true}
}

// Python returns the path of the Python in which workloads run. Without one the test is left out.
func Python(t testing.TB) string {
	t.Helper()
	python := "/usr/bin/python3"
	if r := given(t); r != nil {
		if _, err := os.Lstat(filepath.Join(r.root, python)); err != nil {
			testenv.Skip(t, "Debian "+r.Suite+" has no Python in its root")
		}
	} else if out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output(); err == nil {
		python = strings.TrimSpace(string(out)) // no script in front of it
	} else {
		testenv.Skip(t, "no python3")
	}
	return python
}

// SplitLaunches separates the launches of a log from its calls of ROCTx.
func SplitLaunches(calls map[int64][]MarkerCall) (markers, launches map[int64][]MarkerCall) {
	markers, launches = map[int64][]MarkerCall{}, map[int64][]MarkerCall{}
	for tid, of := range calls {
		for _, c := range of {
			if c.Operation == launchCall {
				launches[tid] = append(launches[tid], c)
			} else {
				markers[tid] = append(markers[tid], c)
			}
		}
	}
	return markers, launches
}

// RangedKernel is a kernel of a trace, with the ranges of its thread around its submit.
type RangedKernel struct {
	ID, TID        int64
	Thread, Symbol string
	SubmitNS       int64
	Ranges         []RecordedRange // the outermost first
}

// RecordedRange is a range of a trace.
type RecordedRange struct {
	Name    string
	StartNS int64
}

// ReadRangedKernels reads the kernels whose submit is known.
func ReadRangedKernels(t testing.TB, path string) []*RangedKernel {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var kernels []*RangedKernel
	by := map[int64]*RangedKernel{}
	err = each(db, `SELECT k.id, k.thread, coalesce(k.thread_name, ''), n.string, k.submit_ns FROM kernel k JOIN rtl_dispatch d ON d.id = k.id
		JOIN rtl_launch l ON l.id = d.launch_id JOIN rocpd_string n ON n.id = l.symbol_id
		WHERE k.submit_ns IS NOT NULL AND k.thread IS NOT NULL`, func(r *sql.Rows) error {
		k := &RangedKernel{}
		err := r.Scan(&k.ID, &k.TID, &k.Thread, &k.Symbol, &k.SubmitNS)
		k.Symbol = strings.TrimSuffix(k.Symbol, ".kd")
		kernels, by[k.ID] = append(kernels, k), k
		return err
	})
	err = errors.Join(err, each(db, `SELECT x.kernel_id, m.name, m.start_ns FROM marker_kernel x JOIN marker m ON m.id = x.marker_id
		ORDER BY x.kernel_id, m.level`, func(r *sql.Rows) error {
		var id int64
		var one RecordedRange
		err := r.Scan(&id, &one.Name, &one.StartNS)
		if k := by[id]; k != nil {
			k.Ranges = append(k.Ranges, one)
		}
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	return kernels
}

// RangeComparison compares the ranges of kernels with the log of the program that launched them.
type RangeComparison struct {
	faults
	ranges   map[int64][]loggedRange // by thread, in order of their begins
	launches map[int64][]MarkerCall
	Kernels  int
	Deepest  int
}

// loggedRange is a range of the log: the call that began it, and the one that ended it.
type loggedRange struct{ push, pop MarkerCall }

// NewRangeComparison returns a comparison with a program's log.
func NewRangeComparison(t Reporter, markers, launches map[int64][]MarkerCall) *RangeComparison {
	c := &RangeComparison{faults: faults{t: t, n: map[string]int{}}, ranges: map[int64][]loggedRange{}, launches: launches}
	for tid, calls := range markers {
		var open []MarkerCall
		for _, one := range calls {
			switch last := len(open) - 1; one.Operation {
			case MarkerPush:
				open = append(open, one)
			case MarkerPop:
				c.ranges[tid] = append(c.ranges[tid], loggedRange{open[last], one})
				open = open[:last]
			}
		}
		slices.SortFunc(c.ranges[tid], func(a, b loggedRange) int { return cmp.Compare(a.push.BeforeNS, b.push.BeforeNS) })
	}
	return c
}

// Add compares the kernels of a session. Ranges that lie within the two times were recorded as a whole.
func (c *RangeComparison) Add(kernels []*RangedKernel, fromNS, untilNS int64) {
	c.t.Helper()
	for _, k := range kernels {
		launch := c.launch(k)
		if launch == nil {
			c.wrong("launch", "%+v was not launched", *k)
			continue
		}
		c.Kernels++
		c.Deepest = max(c.Deepest, len(k.Ranges))
		left := k.Ranges
		for _, r := range c.around(k.TID, launch) {
			switch {
			case len(left) > 0 && r.is(left[0]):
				left = left[1:]
			case r.push.BeforeNS > fromNS+stampToleranceNS && r.pop.AfterNS < untilNS-stampToleranceNS:
				c.wrong("range", "%+v is not in %q", *k, r.push.Text)
			}
		}
		if len(left) > 0 {
			c.wrong("range", "%+v is in ranges that its launch was not in: %+v", *k, left)
		}
	}
}

// launch returns the launch of a kernel; nil: there was none. Of several within the tolerance, as a fast thread makes, the nearest one counts.
func (c *RangeComparison) launch(k *RangedKernel) (launch *MarkerCall) {
	calls := c.launches[k.TID]
	i, _ := slices.BinarySearchFunc(calls, k.SubmitNS, func(c MarkerCall, ns int64) int { return cmp.Compare(c.AfterNS+stampToleranceNS, ns) })
	least := int64(math.MaxInt64)
	for ; i < len(calls) && calls[i].BeforeNS-stampToleranceNS <= k.SubmitNS; i++ {
		if off := max(0, calls[i].BeforeNS-k.SubmitNS, k.SubmitNS-calls[i].AfterNS); off < least {
			launch, least = &calls[i], off
		}
	}
	if launch == nil || launch.Text != k.Symbol {
		return nil
	}
	return launch
}

// around returns the ranges around a launch, the outermost first.
func (c *RangeComparison) around(tid int64, launch *MarkerCall) (all []loggedRange) {
	ranges := c.ranges[tid]
	end, _ := slices.BinarySearchFunc(ranges, launch.BeforeNS, func(r loggedRange, ns int64) int { return cmp.Compare(r.push.BeforeNS, ns) })
	const nearby = 100 // ranges of a step and more
	for _, r := range ranges[max(0, end-nearby):end] {
		if r.pop.AfterNS >= launch.AfterNS {
			all = append(all, r)
		}
	}
	return all
}

func (r *loggedRange) is(recorded RecordedRange) bool {
	return r.push.Text == recorded.Name && recorded.StartNS >= r.push.BeforeNS-stampToleranceNS && recorded.StartNS <= r.push.AfterNS+stampToleranceNS
}

// Finish reports what was found.
func (c *RangeComparison) Finish() {
	c.t.Helper()
	c.count()
	c.t.Logf("%d kernels are in the ranges that their launches were in, up to %d of them", c.Kernels, c.Deepest)
}

// LaunchCall is a recorded call of hipModuleLaunchKernel.
type LaunchCall struct {
	StartNS, EndNS int64
	Kernel         string // that it submitted, as ROCr names it, without .kd; "": the kernel is not in the trace
}

// ReadLaunches returns the launches in a trace by thread, in the order of their times, and the functions of HIP that each
// thread called, by its name.
func ReadLaunches(t testing.TB, path string) (launches map[int64][]LaunchCall, names map[string][]string) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	launches, names = map[int64][]LaunchCall{}, map[string][]string{}
	err = each(db, `SELECT c.thread, c.start_ns, c.end_ns, coalesce(n.string, '') FROM call c LEFT JOIN call_kernel x ON x.call_id = c.id
		LEFT JOIN rtl_dispatch d ON d.id = x.kernel_id LEFT JOIN rtl_launch l ON l.id = d.launch_id LEFT JOIN rocpd_string n ON n.id = l.symbol_id
		WHERE c.function = 'hipModuleLaunchKernel' ORDER BY c.start_ns`, func(r *sql.Rows) error {
		var tid int64
		var l LaunchCall
		err := r.Scan(&tid, &l.StartNS, &l.EndNS, &l.Kernel)
		l.Kernel = strings.TrimSuffix(l.Kernel, ".kd")
		launches[tid] = append(launches[tid], l)
		return err
	})
	err = errors.Join(err, each(db, `SELECT DISTINCT thread_name, function FROM call ORDER BY 1, 2`, func(r *sql.Rows) error {
		var thread, function string
		err := r.Scan(&thread, &function)
		names[thread] = append(names[thread], function)
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	return launches, names
}
