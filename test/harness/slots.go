package harness

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Slots are the entries of the HSA runtime's API table in the target: where
// each exported function goes, by name.
type Slots map[string]uint64

// Slots reads the table out of the target's memory, by the stubs' code.
func (p *Process) Slots(t testing.TB) Slots {
	t.Helper()
	base, path := p.runtime(t)
	mem, err := os.Open(p.proc("mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	file, err := elf.Open(p.proc("root", path)) // the target's own file of that name
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	slots := Slots{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC || !strings.HasPrefix(s.Name, "hsa_") {
			continue
		}
		if at, ok := slotOf(mem, base+s.Value); ok {
			slots[s.Name] = word(mem, at)
		}
	}
	if len(slots) < 50 {
		t.Fatalf("only %d slots found in %s", len(slots), path)
	}
	return slots
}

func (p *Process) runtime(t testing.TB) (base uint64, path string) {
	t.Helper()
	return p.mapped(t, "libhsa-runtime64")
}

// Library is the path of a library that p has loaded.
func (p *Process) Library(t testing.TB, name string) string {
	t.Helper()
	_, path := p.mapped(t, name)
	return path
}

func (p *Process) mapped(t testing.TB, name string) (base uint64, path string) {
	t.Helper()
	for _, line := range p.lines(t, "maps") {
		f := strings.Fields(line)
		if len(f) != 6 || !strings.Contains(f[5], name) || f[2] != "00000000" {
			continue
		}
		low, _, _ := strings.Cut(f[0], "-")
		base, err := strconv.ParseUint(low, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return base, f[5]
	}
	t.Fatalf("no %s in the target", name)
	return 0, ""
}

func word(mem *os.File, at uint64) uint64 {
	var b [8]byte
	if _, err := mem.ReadAt(b[:], int64(at)); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// slotOf decodes [endbr64] mov table(%rip),%rax … jmp *slot(%rax). Zero
// extensions of arguments may stand between the two.
func slotOf(mem *os.File, stub uint64) (uint64, bool) {
	var code [64]byte
	if _, err := mem.ReadAt(code[:], int64(stub)); err != nil {
		return 0, false
	}
	c, at := code[:], stub
	if string(c[:4]) == "\xf3\x0f\x1e\xfa" {
		c, at = c[4:], at+4
	}
	if string(c[:3]) != "\x48\x8b\x05" {
		return 0, false
	}
	table := word(mem, at+7+uint64(int64(int32(binary.LittleEndian.Uint32(c[3:])))))
	for i := 7; i < 24; i++ {
		switch {
		case c[i] == 0xff && c[i+1] == 0x60:
			return table + uint64(int64(int8(c[i+2]))), table != 0
		case c[i] == 0xff && c[i+1] == 0xa0:
			return table + uint64(int64(int32(binary.LittleEndian.Uint32(c[i+2:])))), table != 0
		}
	}
	return 0, false
}

// Differ lists the functions that go elsewhere than in the other table.
func (s Slots) Differ(from Slots) []string {
	var out []string
	for name, to := range s {
		if from[name] != to {
			out = append(out, name)
		}
	}
	return out
}
