package target

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// All lists the pids of all processes, ascending.
func All() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// Tracer returns the ID of the thread that traced the target when it was opened; 0 if
// none did.
func (t *Target) Tracer() int { return t.tracer }

// Runtimes lists the mapped files of the HSA runtime.
func Runtimes(maps []Map) []string { return librariesNamed(maps, "libhsa-runtime64.so") }

const commandLineMax = 4096 // the target controls the length

// CommandLine returns the target's arguments, separated by spaces; "" if the target has
// erased them.
func (t *Target) CommandLine() (string, error) {
	b, err := t.ownMemory("cmdline", commandLineMax)
	return string(bytes.TrimRight(bytes.ReplaceAll(b, []byte{0}, []byte{' '}), " ")), err
}

const (
	environMax = 2 << 20
	valueMax   = 64 // bytes of a value
)

// Environ looks up variables in the target's initial environment, which the target may
// have overwritten. It returns the first variable of a name, as getenv(3) does, and
// omits values longer than valueMax.
func (t *Target) Environ(names ...string) (map[string]string, error) {
	b, err := t.ownMemory("environ", environMax)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for v := range bytes.SplitSeq(b, []byte{0}) {
		name, value, ok := strings.Cut(string(v[:min(len(v), 2*valueMax)]), "=")
		if _, known := found[name]; ok && !known && len(value) <= valueMax && slices.Contains(names, name) {
			found[name] = value
		}
	}
	return found, nil
}

// ownMemory reads a file of /proc that shows pages of the target's memory, which can
// block (userfaultfd, FUSE).
func (t *Target) ownMemory(name string, limit int64) ([]byte, error) {
	f, err := os.Open(t.taskPath(name))
	if err != nil {
		return nil, t.explain("read its "+name, err)
	}
	defer f.Close()
	wait := t.BeginRead(Memory)
	defer EndRead(wait)
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, t.explain("read its "+name, err)
	}
	return b, nil
}

// ControlGroups returns the target's cgroup file (cgroups(7)). The target may control
// the names of the groups.
func (t *Target) ControlGroups() (string, error) {
	b, err := readProc(t.taskPath("cgroup"))
	if err != nil {
		return "", t.explain("read its control groups", err)
	}
	return string(b), nil
}

// SharesClocks reports whether the target's CLOCK_BOOTTIME and CLOCK_MONOTONIC are the tool's (time_namespaces(7)).
func (t *Target) SharesClocks() bool { return t.sameNamespace("time") }

// SharesPIDs reports whether the target is in the tool's pid namespace.
func (t *Target) SharesPIDs() bool { return t.sameNamespace("pid") }

// Devices lists the GPU driver's devices that a process has open.
type Devices struct {
	KFD     bool  // /dev/kfd: hsa_init opens it
	Renders []int // minors of /dev/dri/renderD*, ascending: all GPUs visible to it, used or not
}

// Names of the devices in the links of /proc/PID/fd. testdata/softgpu simulates the driver.
const (
	kfdName      = "/dev/kfd"
	simulatedKFD = "/memfd:softgpu:kfd"
	renderPrefix = "/dev/dri/renderD"
)

// descriptorMax limits the walk over a process's descriptors; a test lowers it.
var descriptorMax = 1 << 16

// Devices finds the target's devices by the links of its descriptors. It opens none.
func (t *Target) Devices() (Devices, error) {
	var d Devices
	names, err := t.descriptors()
	if err != nil {
		return d, err
	}
	for _, n := range names {
		if link, err := os.Readlink(t.taskPath("fd/" + n)); err == nil {
			d.note(link)
		}
	}
	slices.Sort(d.Renders)
	d.Renders = slices.Compact(d.Renders)
	return d, nil
}

// descriptors lists the target's file descriptors, at most descriptorMax.
func (t *Target) descriptors() ([]string, error) {
	dir, err := os.Open(t.taskPath("fd"))
	if err != nil {
		return nil, t.explain("list its descriptors", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(descriptorMax)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, t.explain("list its descriptors", err)
	}
	return names, nil
}

func (d *Devices) note(link string) {
	if isDriver(link) {
		d.KFD = true
	}
	if minor, err := strconv.Atoi(strings.TrimPrefix(link, renderPrefix)); err == nil && strings.HasPrefix(link, renderPrefix) {
		d.Renders = append(d.Renders, minor)
	}
}
