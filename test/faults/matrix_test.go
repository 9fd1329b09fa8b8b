// Package faults holds the 63 cases of the promise that a target is unharmed:
// every state in which a thread or a process can be found, every fault of the
// tool, every environment. The tests attach with the built tool; where a case
// is about a step of the injector, they call it.
//
// Each case has fewer repetitions unless RTL_LONG=1 (make matrix).
package faults

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A row is one case. If a machine may be able to run only half of a case, the case is
// split: 03a, 03b.
type row struct {
	id   string // "07", "03a"
	name string
	want string // in one line
	run  func(*testing.T) string
}

// groups are the tables of the files of this package.
var groups = [][]row{threads, process, signals, tool, environment, binaries, payload}

const cases = 63

// outcome is the result of a row.
type outcome struct {
	row
	result   string // "passed", "skipped", "failed", or "": left out by -run
	evidence string
}

// The main goroutine keeps the main thread: a tracer's goroutine must be able
// to end its OS thread.
func init() { runtime.LockOSThread() }

func TestMatrix(t *testing.T) {
	var all []outcome
	for _, group := range groups {
		for _, r := range group {
			all = append(all, r.test(t))
		}
	}
	printTable(all)
	if none := missing(all); len(none) > 0 {
		t.Errorf("no case for %v", none)
	}
}

func (r row) test(t *testing.T) outcome {
	o := outcome{row: r}
	t.Run(r.id+" "+r.name, func(t *testing.T) {
		defer func() { o.result = resultOf(t) }()
		delete(reasons, t.Name())
		defer func() { o.evidence += reasons[t.Name()] }()
		o.evidence = r.run(t)
	})
	if o.result == "skipped" && o.evidence == "" {
		t.Errorf("%s %s: left out without a reason", o.id, o.name)
	}
	if testing.Verbose() && o.result != "" { // of hours that are cut short this stays
		t.Logf("%s %s: %s %s", o.id, o.name, o.result, o.evidence)
	}
	return o
}

func resultOf(t *testing.T) string {
	switch {
	case t.Failed():
		return "failed"
	case t.Skipped():
		return "skipped"
	}
	return "passed"
}

// reasons why cases were left out, by the test's name.
var reasons = map[string]string{}

// cannot skips a case, for something that this machine lacks. It is the only way to skip one.
func cannot(t *testing.T, reason string) {
	t.Helper()
	reasons[t.Name()] = reason
	testenv.Skip(t, reason)
}

// short reports whether the short form of each case is wanted.
func short() bool { return !testenv.Long() }

// repeat returns how often something is done: long under make matrix.
func repeat(few, many int) int {
	if short() {
		return few
	}
	return many
}

func printTable(all []outcome) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	counts := map[string]int{}
	var skipped []string
	for _, o := range all {
		counts[o.result]++
		if o.result == "skipped" {
			skipped = append(skipped, o.id)
		}
		if o.result != "" {
			fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\n", o.id, o.name, o.want, o.result, o.evidence)
		}
	}
	_ = w.Flush()
	fmt.Printf("passed %d, skipped %d (%s), failed %d\n",
		counts["passed"], counts["skipped"], strings.Join(skipped, " "), counts["failed"])
}

// missing lists the numbers that no row has.
func missing(all []outcome) (numbers []int) {
	have := map[int]bool{}
	for _, o := range all {
		n, _ := strconv.Atoi(o.id[:2]) // a letter may follow
		have[n] = true
	}
	for n := 1; n <= cases; n++ {
		if !have[n] {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
