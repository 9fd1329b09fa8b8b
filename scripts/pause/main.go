// Command pause measures how long an attach stops threads of its target, by the
// kernel's scheduling events, against the floor of the same run: one thread
// seized, interrupted and let go, and against gdb's call of dlopen. Each attach
// goes to a fresh server of more than 20 busy threads over the simulated GPU.
//
//	go run ./scripts/pause [-n 200] [-gdb 10]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

func init() { runtime.LockOSThread() }

func main() {
	n := flag.Int("n", 200, "attaches")
	gdbs := flag.Int("gdb", 10, "attaches by gdb, spread among them")
	build := flag.String("build", buildDir(), "where make has put things")
	flag.Parse()
	if err := run(*n, *gdbs, *build); err != nil {
		fmt.Fprintln(os.Stderr, "pause:", err)
		os.Exit(1)
	}
}

func buildDir() string {
	if dir := os.Getenv("RTL_BUILD"); dir != "" {
		return dir
	}
	return "build"
}

// figures of all attaches, each in its order.
type figures struct {
	floor, total     []time.Duration
	gdb              []time.Duration
	stops            map[int]int // stops per attach -> attaches
	threads          map[int]int
	detach, reattach int // stops seen there
}

func run(n, gdbs int, build string) error {
	build, err := filepath.Abs(build)
	if err != nil {
		return err
	}
	m, err := NewMeter()
	if err != nil {
		return err
	}
	defer m.Close()
	if _, err := exec.LookPath("gdb"); err != nil {
		fmt.Println("gdb is not installed: not compared with")
		gdbs = 0
	}
	f := figures{stops: map[int]int{}, threads: map[int]int{}}
	for i := range n {
		if err := f.measure(m, build); err != nil {
			return fmt.Errorf("attach %d: %w", i+1, err)
		}
		if len(f.gdb) >= gdbs*(i+1)/n {
			continue
		}
		d, err := gdb(m, build)
		if err != nil {
			return err
		}
		f.gdb = append(f.gdb, d)
	}
	f.print()
	return nil
}

func (f *figures) measure(m *Meter, build string) error {
	s, err := startServer(build)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := m.Watch(uint32(s.pid)); err != nil {
		return err
	}
	if err := s.floor(); err != nil {
		return err
	}
	floor, err := m.Take()
	if err != nil || len(floor) != 1 {
		return fmt.Errorf("the floor has %d stops, %w", len(floor), err)
	}
	f.floor = append(f.floor, floor[0].Duration)

	attach, detach, err := s.record(m)
	if err != nil {
		return err
	}
	f.add(attach)
	f.detach += len(detach)
	attach, detach, err = s.record(m)
	f.reattach += len(attach)
	f.detach += len(detach)
	return err
}

func (f *figures) add(stops []Stop) {
	var total time.Duration
	threads := map[uint32]bool{}
	for _, s := range stops {
		total += s.Duration
		threads[s.TID] = true
	}
	f.total = append(f.total, total)
	f.stops[len(stops)]++
	f.threads[len(threads)]++
}

func (f *figures) print() {
	p := func(d []time.Duration, q float64) time.Duration {
		d = slices.Sorted(slices.Values(d))
		return d[int(q*float64(len(d)-1))]
	}
	ratio := func(q float64) float64 { return float64(p(f.total, q)) / float64(p(f.floor, q)) }
	fmt.Printf("%d attaches, scheduling events\n", len(f.total))
	fmt.Printf("floor (seize, interrupt, detach)  p50 %8v  p90 %8v\n", p(f.floor, .5), p(f.floor, .9))
	fmt.Printf("attach, all stops together        p50 %8v  p90 %8v\n", p(f.total, .5), p(f.total, .9))
	fmt.Printf("ratio                             p50 %8.2f  p90 %8.2f\n", ratio(.5), ratio(.9))
	fmt.Printf("stops per attach %v, threads stopped per attach %v\n", f.stops, f.threads)
	fmt.Printf("stops in detaches: %d; in reattaches: %d\n", f.detach, f.reattach)
	if len(f.gdb) > 0 {
		fmt.Printf("gdb, call dlopen (%d times): the worst thread is stopped for %v (p50): %.0f times an attach's p50\n",
			len(f.gdb), p(f.gdb, .5), float64(p(f.gdb, .5))/float64(p(f.total, .5)))
	}
}
