package srcline

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

func always() bool { return true }

func anywhere(uint64) bool { return true }

// sections are the sections of a file by their names.
type sections map[string][]byte

func (s sections) Section(name string) io.Reader {
	if b, ok := s[name]; ok {
		return bytes.NewReader(b)
	}
	return nil
}

func sectionsOf(t testing.TB, path string) (sections, *elf.File) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	all := sections{}
	for _, name := range []string{".debug_line", lineStrings, commonStrings} {
		if s := f.Section(name); s != nil {
			if all[name], err = s.Data(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all, f
}

// source is compiled in each version of DWARF.
const source = `
#include "inner.h"
int data[100];
int first(int a) { return inner(a) + 1; }

int second(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += data[i % 100] * first(i);
	return sum;
}
`

// TestFind: the lines are those that debug/dwarf finds.
func TestFind(t *testing.T) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		testenv.Skip(t, "needs g++")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700),
		os.WriteFile(filepath.Join(dir, "a.cpp"), []byte(source), 0o600),
		os.WriteFile(filepath.Join(dir, "sub", "inner.h"), []byte("static inline int inner(int b)\n{\n\treturn b * 3;\n}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	files := []string{testenv.Artefact(t, "workloads/threads"), testenv.Artefact(t, "libsoftgpu.so")}
	for _, args := range [][]string{{"-gdwarf-2"}, {"-gdwarf-3"}, {"-gdwarf-4"}, {"-gdwarf-5"}, {"-gdwarf64", "-gdwarf-5"}, {"-gdwarf64", "-gdwarf-4"}} {
		out := filepath.Join(dir, "out"+args[len(args)-1]+args[0])
		cmd := exec.Command(compiler, append(args, "-O2", "-Isub", "-shared", "-fPIC", "-o", out, "a.cpp")...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, text)
		}
		files = append(files, out)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { compare(t, file) })
	}
}

// compare compares the lines of all addresses of a file that begin a row.
func compare(t *testing.T, file string) {
	t.Helper()
	all, f := sectionsOf(t, file)
	theirs, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	want, folder := map[uint64]Line{}, map[uint64]string{}
	var wanted []uint64
	for r := theirs.Reader(); ; r.SkipChildren() {
		unit, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if unit == nil {
			break
		}
		lines, err := theirs.LineReader(unit)
		if err != nil || lines == nil {
			t.Fatal(lines, err)
		}
		var last, row dwarf.LineEntry
		for begun := false; lines.Next(&row) == nil; begun, last = !row.EndSequence, row {
			if begun && row.Address > last.Address && last.Line > 0 && last.File != nil {
				folder[last.Address], _ = unit.Val(dwarf.AttrCompDir).(string)
				want[last.Address] = Line{last.File.Name, last.Line}
				wanted = append(wanted, last.Address, row.Address-1)
			}
		}
	}
	got := Find(all, anywhere, wanted, always)
	for at, line := range want {
		mine := got[at]
		if !filepath.IsAbs(mine.File) { // DWARF 2 to 4 have the unit's directory elsewhere
			mine.File = filepath.Join(folder[at], mine.File)
		}
		if mine != (Line{filepath.Clean(line.File), line.Line}) {
			t.Errorf("%#x is in %v, by debug/dwarf in %v", at, mine, line)
		}
	}
	if len(want) < 5 {
		t.Errorf("only %d addresses compared", len(want))
	}
}

// A hostile table ends the search at its limits.
func TestLimits(t *testing.T) {
	header := "\x05\x00\x08\x00\x0c\x00\x00\x00\x01\x01\x01\xfb\x0e\x01" // version 5, no arguments
	for name, table := range map[string]string{
		"entries of no bytes": header + "\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x00",
		"a long unit":         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"a short one":         "\x10\x00\x00\x00\x05",
	} {
		b := []byte(table)
		if name == "entries of no bytes" {
			b = append([]byte{byte(len(b)), 0, 0, 0}, b...)
		}
		if got := Find(sections{".debug_line": b}, anywhere, []uint64{0, math.MaxUint64}, always); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	all, _ := sectionsOf(t, testenv.Artefact(t, "workloads/threads"))
	if got := Find(all, anywhere, []uint64{0x4000}, func() bool { return false }); len(got) != 0 {
		t.Errorf("a search that was ended has found %v", got)
	}
	if got := Find(all, func(uint64) bool { return false }, []uint64{0x4000}, always); len(got) != 0 {
		t.Errorf("lines of what is no code: %v", got)
	}
}

// FuzzFind: a table of any content is read within limits.
func FuzzFind(f *testing.F) {
	if all, err := elf.Open(filepath.Join("..", "..", "build", "workloads", "threads")); err == nil {
		if s := all.Section(".debug_line"); s != nil {
			if b, err := s.Data(); err == nil {
				f.Add(b[:min(len(b), 4096)], []byte("a.c\x00/b\x00"))
			}
		}
		_ = all.Close()
	}
	f.Add([]byte("\x10\x00\x00\x00\x05\x00\x08\x00"), []byte(""))
	f.Fuzz(func(t *testing.T, table, names []byte) {
		wanted := []uint64{0, 0x1000, 0x4242, 1 << 40, math.MaxUint64}
		for _, line := range Find(sections{".debug_line": table, lineStrings: names, commonStrings: names}, anywhere, wanted, always) {
			if line.Line <= 0 || len(line.File) > 3*nameMax+2 {
				t.Errorf("%d, %d bytes", line.Line, len(line.File))
			}
		}
	})
}
