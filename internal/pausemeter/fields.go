package pausemeter

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// fields are offsets in the kernel's struct task_struct.
type fields struct{ state, priority, allowed int32 }

func readFields() (f fields, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return f, err
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return f, err
	}
	if f.state, err = place(task, "__state", "state"); err != nil { // before Linux 5.14
		return f, err
	}
	if f.priority, err = place(task, "prio"); err != nil {
		return f, err
	}
	f.allowed, err = place(task, "nr_cpus_allowed")
	return f, err
}

func place(s *btf.Struct, names ...string) (int32, error) {
	for _, m := range s.Members {
		if slices.Contains(names, m.Name) {
			return int32(m.Offset.Bytes()), nil
		}
	}
	return 0, fmt.Errorf("%s without %s", s.Name, names[0])
}
