package target

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestFileFunctions: the functions are those that debug/elf finds.
func TestFileFunctions(t *testing.T) {
	own, err := os.Open(testenv.Artefact(t, "libsoftgpu.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	f, err := ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := elf.NewFile(own)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := theirs.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	want := map[Addr]string{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && s.Size > 8 && len(want) < 500 {
			want[Addr(s.Value+s.Size/2)] = s.Name
		}
	}
	var all []Addr
	for a := range want {
		all = append(all, a, a)
	}
	found, differ := f.Functions(all), 0
	for a, name := range want {
		if found[a] != name {
			differ++
		}
	}
	if differ > len(want)/50 { // functions that several names share
		t.Errorf("%d of %d functions differ", differ, len(want))
	}
	text := theirs.Section(".text")
	if a, ok := f.Address(text.Offset); !ok || a != Addr(text.Addr) {
		t.Errorf("offset %#x of the file is address %#x", text.Offset, a)
	}
	if _, ok := f.Address(1 << 62); ok {
		t.Error("an address beyond the file")
	}
}

func TestBuildID(t *testing.T) {
	note := []byte("\x04\x00\x00\x00\x03\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\xef\x00")
	for _, c := range []struct {
		notes []byte
		want  string
	}{
		{note, "abcdef"},
		{append([]byte("\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00GNU\x00"), note...), "abcdef"},
		{note[:len(note)-1], ""},
		{[]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x00\x00GNU\x00"), ""},
		{nil, ""},
	} {
		if got := buildID(c.notes); got != c.want {
			t.Errorf("%q: %q, want %q", c.notes, got, c.want)
		}
	}
}

// FuzzFile: a file of any content is read within limits.
func FuzzFile(f *testing.F) {
	if own, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(own[:min(len(own), 4096)])
	}
	f.Add([]byte(elf.ELFMAG))
	f.Fuzz(func(_ *testing.T, b []byte) {
		file, err := ReadFile(bytes.NewReader(b))
		if err != nil {
			return
		}
		file.BuildID()
		at, _ := file.Address(64)
		file.Functions([]Addr{0, at, 1 << 40})
		file.IsCode(at)
		file.IsDebugOf(file)
		for _, name := range []string{".debug_line", ".text"} {
			if r := file.Section(name); r != nil {
				_, _ = io.CopyN(io.Discard, r, 1<<16) // malformed, most of them
			}
		}
	})
}
