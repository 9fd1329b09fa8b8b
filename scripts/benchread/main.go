// Command benchread measures the commands that read a large trace: the report and every
// export, as a user runs them. Run it with `make bench-read`.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

const (
	reportLimit = 2 * time.Second // of 10 million operations
	// An export streams: ten times as many dispatches take little more memory, for SQLite's
	// sorter and caches.
	memoryLimit = 1.5
)

type options struct {
	check, short bool
	dispatches   int
	rounds       int
	dir, tool    string
}

func main() {
	o := options{tool: filepath.Join(cmp.Or(os.Getenv("RTL_BUILD"), "build"), "rtl-attach")}
	flag.BoolVar(&o.check, "check", false, "compare with the targets; exit 1 when one is missed")
	flag.BoolVar(&o.short, "short", false, "a small trace: for CI")
	flag.IntVar(&o.dispatches, "dispatches", 10_000_000, "dispatches in the trace")
	flag.IntVar(&o.rounds, "rounds", 3, "runs of each command; the median counts")
	flag.StringVar(&o.dir, "dir", "", "write in this `FOLDER` (default: the one for temporary files)")
	write := flag.String("make", "", "only write a trace to this `FILE`, in a process of its own")
	flag.Parse()
	if *write != "" {
		exit(tracetest.Make(*write, o.dispatches, tracetest.InOrder))
	}
	if o.short {
		o.dispatches, o.rounds = 300_000, 1
	}
	exit(run(o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchread:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(o options) error {
	dir, err := os.MkdirTemp(o.dir, "benchread")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	large, small := filepath.Join(dir, "large.db"), filepath.Join(dir, "small.db")
	if err := errors.Join(write(large, o.dispatches), write(small, o.dispatches/10)); err != nil {
		return err
	}
	fmt.Printf("%d dispatches; median of %d runs; in brackets: with a tenth of the dispatches\n\n", o.dispatches, o.rounds)
	fmt.Printf("%-28s%10s%12s%20s%14s\n", "rtl-attach", "wall s", "processor s", "peak memory MB", "bytes/disp.")
	var failed error
	for _, args := range commands(dir) {
		big, err := o.measure(append(args, large))
		if err != nil {
			return err
		}
		little, err := o.measure(append(args, small))
		if err != nil {
			return err
		}
		fmt.Printf("%-28s%10.2f%12.2f%12.1f (%5.1f)%14.1f\n", name(args), big.wall.Seconds(), big.processor.Seconds(),
			big.peakMB, little.peakMB, float64(big.bytes)/float64(o.dispatches))
		failed = errors.Join(failed, judge(args, big, little))
	}
	if o.check {
		return failed
	}
	return nil
}

// write writes a trace in another process, so that this one stays small: until its exec a
// child shares this process's memory, and the kernel counts the peak of it as the child's
// (getrusage(2), ru_maxrss).
func write(path string, dispatches int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-make", path, "-dispatches", strconv.Itoa(dispatches))
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// commands returns the report and all exports except those of single kinds, which the trace does not have.
func commands(dir string) [][]string {
	all := [][]string{{"report"}, {"report", "--json"}}
	for _, f := range export.Formats {
		if !strings.HasPrefix(f.Name, "csv-") {
			all = append(all, []string{"export", "-f", f.Name, "-o", filepath.Join(dir, "out")})
		}
	}
	return all
}

func name(args []string) string {
	if args[0] == "export" {
		return "export -f " + args[2]
	}
	return strings.Join(args, " ")
}

// sample is the cost of one run.
type sample struct {
	wall, processor time.Duration
	peakMB          float64
	bytes           int64
}

// measure runs a command o.rounds times and returns the run of the median time.
func (o options) measure(args []string) (sample, error) {
	runs := make([]sample, o.rounds)
	for i := range runs {
		var err error
		if runs[i], err = o.once(args); err != nil {
			return sample{}, err
		}
	}
	slices.SortFunc(runs, func(a, b sample) int { return cmp.Compare(a.wall, b.wall) })
	return runs[len(runs)/2], nil
}

func (o options) once(args []string) (sample, error) {
	cmd := exec.Command(o.tool, args...)
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("%v: %w", cmd.Args, err)
	}
	s := sample{wall: time.Since(began), processor: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	s.peakMB = float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1000
	if args[0] != "export" {
		return s, nil
	}
	output := args[slices.Index(args, "-o")+1]
	info, err := os.Stat(output)
	if err != nil {
		return s, err
	}
	s.bytes = info.Size()
	return s, os.Remove(output)
}

// judge returns an error if the command missed its target.
func judge(args []string, big, little sample) error {
	switch {
	case len(args) == 1 && big.wall > reportLimit:
		return fmt.Errorf("the report took %v, more than %v", big.wall, reportLimit)
	case args[0] == "export" && big.peakMB > memoryLimit*little.peakMB:
		return fmt.Errorf("%s: %.0f MB, and %.0f MB with a tenth of the dispatches", name(args), big.peakMB, little.peakMB)
	}
	return nil
}
