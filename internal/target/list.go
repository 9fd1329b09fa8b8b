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

// Tracer is the id of the thread that traced the target when it was looked at; 0: none did.
func (t *Target) Tracer() int { return t.tracer }

// Runtimes lists the files of the ROCm runtime that are mapped.
func Runtimes(maps []Map) []string { return librariesNamed(maps, "libhsa-runtime64.so") }

const commandLineMax = 4096 // a target makes it as long as it likes

// CommandLine is what the target shows as its arguments, with spaces between
// them; "" where it has erased them.
func (t *Target) CommandLine() (string, error) {
	b, err := t.ownMemory("cmdline", commandLineMax)
	return string(bytes.TrimRight(bytes.ReplaceAll(b, []byte{0}, []byte{' '}), " ")), err
}

const (
	environMax = 2 << 20
	valueMax   = 64 // of a variable that is asked for
)

// Environ looks variables up in what the target shows as its environment: the one
// that it was started with, unless it has overwritten that. The first of a name
// counts, as for getenv(3); values that are longer than any that is meant are
// left out.
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

// ownMemory reads a file of /proc that shows pages of the target's: they may be
// long in coming.
func (t *Target) ownMemory(name string, limit int64) ([]byte, error) {
	f, err := os.Open(t.taskPath(name))
	if err != nil {
		return nil, t.explain("read its "+name, err)
	}
	defer f.Close()
	mine := t.BeginRead(Memory)
	defer EndRead(mine)
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, t.explain("read its "+name, err)
	}
	return b, nil
}

// ControlGroups is the target's cgroup file (cgroups(7)): lines with the names
// of control groups, which may be a target's own choice.
func (t *Target) ControlGroups() (string, error) {
	b, err := readProc(t.taskPath("cgroup"))
	if err != nil {
		return "", t.explain("read its control groups", err)
	}
	return string(b), nil
}

// SharesPIDs says whether the target lives in our pid namespace.
func (t *Target) SharesPIDs() bool { return t.sameNamespace("pid") }

// Devices is what a process has open of the GPU driver's.
type Devices struct {
	KFD     bool  // /dev/kfd: opened by hsa_init
	Renders []int // minors of /dev/dri/renderD*, ascending: all that it can see, used or not
}

// As the links in /proc name them. testdata/softgpu stands in for the driver.
const (
	kfdName      = "/dev/kfd"
	simulatedKFD = "/memfd:softgpu:kfd"
	renderPrefix = "/dev/dri/renderD"
)

// descriptorMax bounds the walk over a process's descriptors; tests have fewer.
var descriptorMax = 1 << 16

// Devices reads the names behind the target's descriptors, and opens none.
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

// descriptors names the target's; beyond descriptorMax of them, the first.
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
