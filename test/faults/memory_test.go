package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// toolWithoutMemory: 38a. The tool gets less and less address space, so that it dies at different
// moments.
func toolWithoutMemory(t *testing.T) string {
	codes := map[int]int{}
	for mib := 160; mib <= 1600; mib += repeat(240, 40) {
		v := mixed(t)
		r := prepared(t, "rtl-attach", v.PID, quickly)
		limited := []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, mib<<10)}
		r.Cmd.Args = append(limited, r.Cmd.Args...)
		r.Cmd.Path = "/bin/sh"
		r.Start(t)
		codes[r.Exit(t)]++
		v.Unharmed(t)
		v.works(t)
		record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("exit codes %v (2: the Go runtime's end), each followed by a good attach", codes)
}

// toolOutOfMemory: 38b. The tool runs in a control group with less and less memory.
func toolOutOfMemory(t *testing.T) string {
	v := mixed(t)
	codes := map[int]int{}
	for _, mib := range []int{4, 5, 6, 7, 8, 10, 12, 16} {
		r := prepared(t, "rtl-attach", v.PID, quickly)
		r.Cmd.Args = append([]string{"/bin/sh", "-c", `read go; exec "$0" "$@"`}, r.Cmd.Args...)
		r.Cmd.Path = "/bin/sh"
		begin, err := r.Cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Start(t)
		dir := cgroup(t, "memory", r.Cmd.Process.Pid)
		if err := limitMemory(dir, mib<<20); err != nil {
			cannot(t, "no control group limits memory: "+err.Error())
		}
		_, _ = begin.Write([]byte("go\n"))
		codes[r.Exit(t)]++
		v.Unharmed(t)
		v.works(t)
	}
	if codes[-1] == 0 {
		t.Errorf("the tool was never killed: exit codes %v", codes)
	}
	timed := record(t, v.PID).ok(t)
	v.sound(t)
	return fmt.Sprintf("exit codes %v (-1: killed); then %d dispatches timed", codes, timed)
}

// limitMemory supports both versions of control groups. It allows no swap, or the kernel would
// swap the tool out instead of killing it; kernels that do not account for swap lack the files
// for this.
func limitMemory(dir string, bytes int) error {
	limit := func(file string, bytes int) error { return write(filepath.Join(dir, file), strconv.Itoa(bytes)) }
	err := limit("memory.limit_in_bytes", bytes)
	file, most := "memory.memsw.limit_in_bytes", bytes // both together
	if errors.Is(err, os.ErrNotExist) {
		err = limit("memory.max", bytes)
		file, most = "memory.swap.max", 0
	}
	if swapErr := limit(file, most); !errors.Is(swapErr, os.ErrNotExist) {
		err = errors.Join(err, swapErr)
	}
	return err
}

func payloadWithoutMemory(t *testing.T) string {
	v := mixed(t)
	lib := testenv.Artefact(t, "librtl-attach-test.so")
	var causes []string
	for _, step := range []string{"memory", "ring", "worker"} {
		r := record(t, v.PID, "--payload", lib, "--set", "RTL_TEST_FAIL_STEP="+step)
		if r.Code != 1 {
			t.Errorf("%s: exit code %d\n%s", step, r.Code, r.Stderr.String())
		}
		causes = append(causes, lineOf(r.Stderr.String(), "cause"))
		v.sound(t)
	}
	timed := record(t, v.PID, "--payload", lib).ok(t)
	v.sound(t)
	return fmt.Sprintf("%q; then %d dispatches timed", causes, timed)
}
