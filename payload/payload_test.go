package payload_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/rtl-attach/rtl-attach/payload"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

const runtime = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1"

func TestBuildID(t *testing.T) {
	library, err := payload.Library()
	if err != nil {
		testenv.Skip(t, err.Error())
	}
	id, err := payload.BuildID(library)
	if err != nil || len(id) != 20 {
		t.Fatalf("build id %x, %v; want 20 bytes", id, err)
	}
}

// A stub decoded by a real disassembler: where it finds the table's address,
// and the slot's offset in the table.
type stub struct {
	pointer uint64
	offset  int64
}

// decode follows the stub's instructions to its jump; ok is false for any
// other form. The disassembler does not know endbr64.
func decode(code []byte, at uint64) (s stub, ok bool) {
	if rest, marked := bytes.CutPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}); marked {
		code, at = rest, at+4
	}
	for range 8 {
		inst, err := x86asm.Decode(code, 64)
		if err != nil {
			return s, false
		}
		next := at + uint64(inst.Len)
		mem, isMem := inst.Args[0].(x86asm.Mem)
		switch {
		case inst.Op == x86asm.MOV && inst.Args[0] == x86asm.RAX:
			load, isLoad := inst.Args[1].(x86asm.Mem)
			if !isLoad || load.Base != x86asm.RIP {
				return s, false
			}
			s.pointer = next + uint64(load.Disp)
		case inst.Op == x86asm.JMP && isMem && mem.Base == x86asm.RAX && mem.Index == 0:
			s.offset = mem.Disp
			return s, s.pointer != 0
		case inst.Op != x86asm.MOVZX:
			return s, false
		}
		code, at = code[inst.Len:], next
	}
	return s, false
}

// TestStubDecoder holds slots.c to a disassembler over every export of the
// real runtimes, this machine's and those of the other releases that make has
// set up: it decodes the same functions, to the same slots.
func TestStubDecoder(t *testing.T) {
	if _, err := os.Stat(filepath.Join(buildDir(), "payload-test", "slots_dump")); err != nil {
		testenv.Skip(t, "not built (run: make test-payload): "+err.Error())
	}
	roots, err := filepath.Glob(filepath.Join(buildDir(), "roots", "*", runtime))
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range append([]string{runtime}, roots...) {
		root := strings.TrimSuffix(library, runtime)
		name := "here"
		if root != "" {
			name = filepath.Base(root)
		}
		t.Run(name, func(t *testing.T) { decodesLikeADisassembler(t, root) })
	}
}

// decodesLikeADisassembler checks the runtime in a root file system; "": this machine's.
func decodesLikeADisassembler(t *testing.T, root string) {
	if root != "" && os.Geteuid() != 0 {
		testenv.Skip(t, "only root can enter a root file system")
	}
	f, err := elf.Open(root + runtime)
	if err != nil {
		testenv.Skip(t, err.Error())
	}
	defer f.Close()
	want := disassembleAll(t, f)
	got := decodedBy(t, root, want)
	sameByStub(t, got, decodedBy(t, root, want, "stub"))

	tables := map[uint64]uint64{} // table pointer's place -> table
	for name, s := range want {
		slot, decoded := got[name]
		if !decoded {
			t.Errorf("%s: a plain stub that slots.c does not decode", name)
			continue
		}
		table := slot - uint64(s.offset)
		if known, seen := tables[s.pointer]; seen && known != table {
			t.Errorf("%s: slot %#x lies at %+d of another table", name, slot, s.offset)
		}
		tables[s.pointer] = table
	}
	for name := range got {
		if _, plain := want[name]; !plain {
			t.Errorf("%s: slots.c decodes what the disassembler does not", name)
		}
	}
	t.Logf("%d plain stubs of %d tables", len(want), len(tables))
	if len(want) < 150 || len(tables) != 2 {
		t.Errorf("%d plain stubs of %d tables: expected the core table's and the extension table's", len(want), len(tables))
	}
}

// disassembleAll returns the plain stubs among the exports.
func disassembleAll(t *testing.T, f *elf.File) map[string]stub {
	t.Helper()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	text := f.Section(".text")
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]stub{}
	for _, s := range symbols {
		if !strings.HasPrefix(s.Name, "hsa_") || s.Value < text.Addr || s.Value >= text.Addr+text.Size {
			continue
		}
		if d, ok := decode(code[s.Value-text.Addr:], s.Value); ok {
			plain[s.Name] = d
		}
	}
	return plain
}

// decodedBy runs the C decoder over all exports of a root's runtime.
func decodedBy(t *testing.T, root string, names map[string]stub, how ...string) map[string]uint64 {
	t.Helper()
	var list strings.Builder
	for name := range names {
		fmt.Fprintln(&list, name)
	}
	fmt.Fprintln(&list, "hsa_ext_image_create") // loads the table in two steps: not a plain stub
	cmd := exec.Command(filepath.Join(buildDir(), "payload-test", "slots_dump"), append([]string{runtime}, how...)...)
	if root != "" {
		cmd = exec.Command(filepath.Join("..", "scripts", "in-root"), root, buildDir()+"=/srv", "--", "/srv/payload-test/slots_dump", runtime)
		cmd.Args = append(cmd.Args, how...)
	}
	cmd.Stdin = strings.NewReader(list.String())
	return slotsFrom(t, cmd)
}

// sameByStub: what slots.c decodes, stub.c decodes to the same slot.
func sameByStub(t *testing.T, bySlots, byStub map[string]uint64) {
	t.Helper()
	for name, slot := range bySlots {
		if byStub[name] != slot {
			t.Errorf("%s: slot %#x, by stub.c %#x", name, slot, byStub[name])
		}
	}
}

// slotsFrom runs slots_dump, which prints a name and a slot per line.
func slotsFrom(t *testing.T, dump *exec.Cmd) map[string]uint64 {
	t.Helper()
	out, err := dump.Output()
	if err != nil {
		t.Fatal(err)
	}
	slots := map[string]uint64{}
	for line := range strings.Lines(string(out)) {
		var name string
		var slot uint64
		if _, err := fmt.Sscan(line, &name, &slot); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		slots[name] = slot
	}
	return slots
}

func buildDir() string {
	if dir := os.Getenv("RTL_BUILD"); dir != "" {
		return dir
	}
	return filepath.Join("..", "build")
}
