package harness

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Places are the words in the writable data of a process's program and libraries (global offset
// tables and the libraries' dispatch tables among them) that point into the payload's code, by
// their address.
type Places map[uint64]uint64

// span is a part of the address space.
type span struct{ start, end uint64 }

// Data is a copy of the writable data of a process's program and libraries.
type Data struct {
	parts map[span][]byte
	code  []span // of the payload
}

// Data copies it, without stopping the process.
func (p *Process) Data(t testing.TB) Data {
	t.Helper()
	mem, err := os.Open(p.proc("mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	d := Data{parts: map[span][]byte{}}
	_, payload, _ := Ours()
	for _, line := range p.lines(t, "maps") {
		f := strings.Fields(line)
		low, high, _ := strings.Cut(f[0], "-")
		at := span{parse(low), parse(high)}
		switch {
		case len(f) < 6:
		case strings.Contains(line, payload):
			if strings.Contains(f[1], "x") {
				d.code = append(d.code, at)
			}
		case f[2] == "00000000" && strings.HasPrefix(f[5], "/"):
			for _, part := range writable(p.proc("root", f[5]), at.start) {
				b := make([]byte, part.end-part.start)
				if _, err := mem.ReadAt(b, int64(part.start)); err == nil {
					d.parts[part] = b
				}
			}
		}
	}
	return d
}

func parse(hex string) uint64 {
	n, _ := strconv.ParseUint(hex, 16, 64)
	return n
}

// writable returns where the writable segments of a file that is mapped at base are; none: it is
// no ELF file.
func writable(path string, base uint64) (parts []span) {
	file, err := elf.Open(path) // headers only: the workload's log is mapped, too, and large
	if err != nil {
		return nil
	}
	defer file.Close()
	if file.Type != elf.ET_DYN {
		return nil
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_LOAD && segment.Flags&elf.PF_W != 0 {
			start := base + segment.Vaddr&^7
			parts = append(parts, span{start, base + (segment.Vaddr+segment.Memsz)&^7})
		}
	}
	return parts
}

// word returns the word at an address; 0: it is not in the copy.
func (d Data) word(at uint64) uint64 {
	for part, b := range d.parts {
		if at >= part.start && at+8 <= part.end {
			return binary.LittleEndian.Uint64(b[at-part.start:])
		}
	}
	return 0
}

// Places finds the words that point into the payload's code.
func (d Data) Places() Places {
	found := Places{}
	for part, b := range d.parts {
		for i := 0; i+8 <= len(b); i += 8 {
			word := binary.LittleEndian.Uint64(b[i:])
			if slices.ContainsFunc(d.code, func(s span) bool { return word >= s.start && word < s.end }) {
				found[part.start+uint64(i)] = word
			}
		}
	}
	return found
}

// MustBeAsIn fails unless each of the places has the value that it had in before. An entry that the
// dynamic linker has bound since then leads to another module.
func (d Data) MustBeAsIn(t testing.TB, before Data, places Places) {
	t.Helper()
	sameModule := func(at, word uint64) bool { return word < at && at-word < 1<<24 } // code precedes data
	left := d.Places()
	for at := range places {
		now, was := d.word(at), before.word(at)
		bound := sameModule(at, was) && !sameModule(at, now) && left[at] == 0
		if now != was && !bound {
			t.Errorf("%#x has %#x, before the session it had %#x", at, now, was)
		}
	}
}
