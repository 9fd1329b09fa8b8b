// Command pause measures how long an attach stops threads of its target, by the kernel's
// scheduling events and by the tool's own clock. It compares this with the floor in the
// same run (seize, interrupt and release one thread), and with gdb calling dlopen. The
// target of each attach is a new server with 20 threads, 16 of them busy, on the
// simulated GPU.
//
// With -burn N, N other processes compute meanwhile.
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
	gdbs := flag.Int("gdb", 10, "attaches with gdb, spread over the run")
	burners := flag.Int("burn", 0, "processes that compute meanwhile")
	build := flag.String("build", buildDir(), "the build `FOLDER`")
	check := flag.Bool("check", false, "compare with the targets; exit 1 when one is missed")
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
		fmt.Println("gdb is not installed: no comparison with it")
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
