// Package apitable reads the HSA runtime's API table from another process: which functions are behind
// its slots. Tests use it to see which functions the payload has hooked, and package avail to see
// whether another tool is there.
package apitable

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrAbsent means that the process has no HSA runtime.
var ErrAbsent = errors.New("no HSA runtime")

// Slots maps the name of each exported function to the address in its table slot.
type Slots map[string]uint64

// Read finds the table by decoding the code of the stubs, and reads its slots. tid is
// a live thread of process pid.
func Read(pid, tid int) (Slots, error) {
	task := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	base, path, err := runtime(task)
	if err != nil {
		return nil, err
	}
	mem, err := os.Open(task + "mem")
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	file, err := elf.Open(task + "root" + path) // the process's own file of that name
	if err != nil {
		return nil, err
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	slots := Slots{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC || !strings.HasPrefix(s.Name, "hsa_") {
			continue
		}
		if stub, ok := Decode(mem, base+s.Value); ok {
			slots[s.Name] = word(mem, stub.Slot)
		}
	}
	if len(slots) < 50 {
		return nil, fmt.Errorf("only %d slots found in %s", len(slots), path)
	}
	return slots, nil
}

// runtime returns the address at which the library is mapped, and its path.
func runtime(task string) (base uint64, path string, err error) {
	maps, err := os.Open(task + "maps")
	if err != nil {
		return 0, "", err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 6 || !strings.Contains(f[5], "libhsa-runtime64") || f[2] != "00000000" {
			continue
		}
		low, _, _ := strings.Cut(f[0], "-")
		base, err := strconv.ParseUint(low, 16, 64)
		return base, f[5], err
	}
	return 0, "", ErrAbsent
}

// word returns 0 for a word that cannot be read.
func word(mem io.ReaderAt, at uint64) uint64 {
	var b [8]byte
	if _, err := mem.ReadAt(b[:], int64(at)); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// Stub is an exported function that jumps through a slot of a table.
type Stub struct{ Table, Slot uint64 } // addresses

// Decode decodes [endbr64] mov table(%rip),%rax … jmp *slot(%rax) at an address. Zero
// extensions of arguments may precede the mov, or stand between the two. The memory may be a hostile
// process's: Decode reads two times, and follows no further pointer.
func Decode(mem io.ReaderAt, stub uint64) (Stub, bool) {
	var code [64]byte
	if _, err := mem.ReadAt(code[:], int64(stub)); err != nil {
		return Stub{}, false
	}
	c, at := code[:], stub
	if string(c[:4]) == "\xf3\x0f\x1e\xfa" {
		c, at = c[4:], at+4
	}
	if string(c[:4]) == "\x0f\xb6\x44\x24" && string(c[5:8]) == "\x89\x44\x24" { // movzbl d8(%rsp),%eax; mov %eax,d8(%rsp)
		c, at = c[9:], at+9
	}
	if string(c[:3]) != "\x48\x8b\x05" {
		return Stub{}, false
	}
	table := word(mem, at+7+uint64(int64(int32(binary.LittleEndian.Uint32(c[3:])))))
	for i := 7; i < 24; i++ {
		switch {
		case c[i] == 0xff && c[i+1] == 0x60:
			return Stub{table, table + uint64(int64(int8(c[i+2])))}, table != 0
		case c[i] == 0xff && c[i+1] == 0xa0:
			return Stub{table, table + uint64(int64(int32(binary.LittleEndian.Uint32(c[i+2:]))))}, table != 0
		}
	}
	return Stub{}, false
}

// Differ returns the sorted names of the functions whose slot differs from its
// value in from.
func (s Slots) Differ(from Slots) []string {
	var out []string
	for name, to := range s {
		if from[name] != to {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
