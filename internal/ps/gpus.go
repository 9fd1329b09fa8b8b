package ps

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

const (
	driverRoot  = "/sys/class/kfd/kfd"
	firstRender = 128 // minor of the first render node
)

// Driver returns the driver's directory in sysfs.
func Driver() fs.FS { return os.DirFS(driverRoot) }

// ComputeQueues returns how many compute queues the driver lists for a process; 0 if it lists none, or
// counts the process by another pid.
func ComputeQueues(driver fs.FS, pid int) int {
	if target.InContainer() {
		return 0
	}
	const compute = "0" // KFD_QUEUE_TYPE_COMPUTE
	files, _ := fs.Glob(driver, fmt.Sprintf("proc/%d/queues/*/type", pid))
	n := 0
	for _, f := range files {
		if word(driver, f) == compute {
			n++
		}
	}
	return n
}

// gpusOf returns the GPUs that the target uses, by the driver's numbers. If the driver does not
// list them, gpusOf returns the GPUs whose render nodes the target has open.
func gpusOf(t *target.Target, devices target.Devices) []int {
	if !target.InContainer() { // the driver lists pids of the machine's first pid namespace
		if gpus := gpusInUse(Driver(), t.PID); len(gpus) > 0 {
			return gpus
		}
	}
	var gpus []int
	for _, minor := range devices.Renders {
		if minor >= firstRender {
			gpus = append(gpus, minor-firstRender)
		}
	}
	return gpus
}

// gpusInUse returns the GPUs on which the process has queues or, if none, memory, as the driver
// lists them.
func gpusInUse(driver fs.FS, pid int) []int {
	index := GPUIndex(driver)
	dir := fmt.Sprintf("proc/%d", pid)
	var gpus []int
	note := func(id string) {
		if i, ok := index[id]; ok {
			gpus = append(gpus, i)
		}
	}
	queues, _ := fs.Glob(driver, dir+"/queues/*/gpuid")
	for _, q := range queues {
		note(word(driver, q))
	}
	if len(gpus) == 0 {
		held, _ := fs.Glob(driver, dir+"/vram_*")
		for _, f := range held {
			if n := word(driver, f); n != "" && n != "0" {
				note(strings.TrimPrefix(path.Base(f), "vram_"))
			}
		}
	}
	slices.Sort(gpus)
	return slices.Compact(gpus)
}

// GPUIndex numbers the nodes that are GPUs, by their ids.
func GPUIndex(driver fs.FS) map[string]int {
	files, _ := fs.Glob(driver, "topology/nodes/*/gpu_id")
	node := func(f string) int {
		n, _ := strconv.Atoi(path.Base(path.Dir(f)))
		return n
	}
	slices.SortFunc(files, func(a, b string) int { return node(a) - node(b) })
	index := map[string]int{}
	for _, f := range files {
		if id := word(driver, f); id != "" && id != "0" {
			index[id] = len(index)
		}
	}
	return index
}

// word returns the content of one of the driver's files; "": it cannot be read.
func word(driver fs.FS, name string) string {
	b, err := fs.ReadFile(driver, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
