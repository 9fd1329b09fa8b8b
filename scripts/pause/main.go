// Command pause measures how long an attach stops threads of its target, by the
// kernel's scheduling events, beside what the tool says of it, against the floor of
// the same run: one thread seized, interrupted and let go, and against gdb's call of
// dlopen. Each attach goes to a fresh server of 20 threads, 16 of them busy, over the
// simulated GPU.
//
// With -burn the machine is full: so many processes beside it do nothing but compute.
//
//	go run ./scripts/pause [-n 200] [-gdb 10] [-burn 0] [-check]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
)

func init() { runtime.LockOSThread() }

func main() {
	n := flag.Int("n", 200, "attaches")
	gdbs := flag.Int("gdb", 10, "attaches by gdb, spread among them")
	burners := flag.Int("burn", 0, "processes that compute meanwhile")
	build := flag.String("build", buildDir(), "where make has put things")
	check := flag.Bool("check", false, "end with 1 unless everything passes")
	flag.Parse()
	stop, err := burn(*burners)
	passed := false
	if err == nil {
		passed, err = run(*n, *gdbs, *build)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pause:", err)
	}
	if err != nil || *check && !passed {
		os.Exit(1)
	}
}

func buildDir() string {
	if dir := os.Getenv("RTL_BUILD"); dir != "" {
		return dir
	}
	return "build"
}

func run(n, gdbs int, build string) (passed bool, err error) {
	if n <= 0 {
		return false, errors.New("-n must be positive")
	}
	if build, err = filepath.Abs(build); err != nil {
		return false, err
	}
	m, err := pausemeter.Open()
	if err != nil {
		return false, err
	}
	defer m.Close()
	if _, err := exec.LookPath("gdb"); err != nil {
		fmt.Println("gdb is not installed: not compared with")
		gdbs = 0
	}
	f := newFigures()
	for i := range n {
		if err := f.measure(m, build); err != nil {
			return false, fmt.Errorf("attach %d: %w", i+1, err)
		}
		if len(f.gdb) >= gdbs*(i+1)/n {
			continue
		}
		d, err := gdb(m, build)
		if err != nil {
			return false, err
		}
		f.gdb = append(f.gdb, d)
	}
	return f.print(), nil
}
