package stuck

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/ps"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// The driver's offsets of mappings of /dev/kfd (kfd_priv.h): bits 62 and 63 have the type, 46 to 61 the GPU's id.
const (
	mmapTypeShift    = 62
	mmapTypeDoorbell = 3
	mmapGPUShift     = 46
	mmapGPUMask      = 1<<16 - 1
)

// gpuIDOf returns the id of the GPU whose doorbells are mapped at m; 0: it cannot be told.
func gpuIDOf(m target.Map) uint32 {
	if !strings.HasPrefix(m.Path, "/dev/kfd") || m.Offset>>mmapTypeShift != mmapTypeDoorbell {
		return 0
	}
	return uint32(m.Offset >> mmapGPUShift & mmapGPUMask)
}

// gpuOf returns the id of a queue's GPU by the page that has its doorbell's register; 0: it cannot be told.
func (l *look) gpuOf(q *rawQueue) uint32 {
	s, err := readSignal(l.t, q.doorbell)
	if err != nil || !s.isDoorbell() {
		return 0
	}
	m, ok := target.FindMap(l.maps, target.Addr(s.value))
	if !ok {
		return 0
	}
	return gpuIDOf(m)
}

// gpusByID numbers the GPUs as the driver does. The id in an offset has 16 bits.
func gpusByID(driver fs.FS) map[uint32]int {
	gpus := map[uint32]int{}
	for text, n := range ps.GPUIndex(driver) {
		if id, err := strconv.ParseUint(text, 10, 32); err == nil {
			gpus[uint32(id)&mmapGPUMask] = n
		}
	}
	return gpus
}
