package cpusample

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
)

// perfSample returns a sample of this process with registers and a stack of size bytes, of which used are there.
func perfSample(pid uint32, abi, size, used uint64) []byte {
	var b bytes.Buffer
	registers := [17]uint64{7: 0x7000, 8: 0x4000} // SP, IP
	for _, part := range []any{pid, pid, uint64(5), uint32(1), uint32(0), abi, registers, size, make([]byte, size), used} {
		_ = binary.Write(&b, binary.LittleEndian, part) // a bytes.Buffer takes all
	}
	return b.Bytes()
}

func TestReadPerf(t *testing.T) {
	var s stackRecord
	if err := readPerf(perfSample(7, unix.PERF_SAMPLE_REGS_ABI_64, 64, 40), &s); err != nil || len(s.memory) != 40 || s.base != 0x7000 || s.registers[16] != 0x4000 || s.Time != 5 || s.Tid != 7 {
		t.Errorf("%+v: %v", s, err)
	}
	if err := readPerf(perfSample(7, unix.PERF_SAMPLE_REGS_ABI_NONE, 0, 0), &s); err != nil || s.base != 0 || s.memory != nil {
		t.Errorf("%+v: %v", s, err)
	}
	for _, bad := range [][]byte{nil, perfSample(7, unix.PERF_SAMPLE_REGS_ABI_64, 64, 65), perfSample(7, unix.PERF_SAMPLE_REGS_ABI_64, 64, 64)[:200]} {
		if err := readPerf(bad, &s); !errors.Is(err, errRecord) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

// FuzzPerf: whatever is in a sample, it becomes rows or is refused.
func FuzzPerf(f *testing.F) {
	f.Add(perfSample(7, unix.PERF_SAMPLE_REGS_ABI_64, 64, 40))
	f.Add(perfSample(7, unix.PERF_SAMPLE_REGS_ABI_NONE, 0, 0))
	p := &Perf{Process: self(f)}
	f.Fuzz(func(_ *testing.T, b []byte) {
		var s stackRecord
		if readPerf(b, &s) == nil {
			p.add(&s, cputrace.RanUser, &cputrace.Batch{})
		}
	})
}
