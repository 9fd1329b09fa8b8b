package cpusample

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
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

// TestObservePerf: this process has samples while it runs, in its own code.
func TestObservePerf(t *testing.T) {
	tg, err := target.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	p, err := ObservePerf(tg, Options{CPU: Clock{HZ: 499}})
	if err != nil {
		testenv.Skip(t, err.Error())
	}
	defer p.Close()
	var got cputrace.Batch
	for limit := time.After(hang.Limit); len(got.Samples) < 3; {
		b := p.Take()
		got.Samples, got.Stacks, got.Frames = append(got.Samples, b.Samples...), append(got.Stacks, b.Stacks...), append(got.Frames, b.Frames...)
		select {
		case <-limit:
			t.Fatal("no samples")
		default: // it runs
		}
	}
	p.Stop()
	after := boottimeNS()
	known := 0
	for _, s := range append(got.Samples, p.Take().Samples...) {
		if s.TimeNS < p.begunNS || s.TimeNS > after || s.Clock != cputrace.CPUClock || s.Processor < 0 {
			t.Errorf("%+v", s)
		}
		if s.Stack != 0 {
			known++
		}
	}
	if p.hangs() || len(p.fds)+len(p.rings) > 0 || known == 0 || p.refused > 0 {
		t.Errorf("hangs %v, %d descriptors, %d stacks, %d refused", p.hangs(), len(p.fds), known, p.refused)
	}
	for _, f := range got.Frames {
		if f.File == "" {
			t.Errorf("%+v is in no file", f)
		}
	}
}
