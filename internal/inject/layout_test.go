package inject

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestLayout generates the Go side of boot.h again and compares it.
func TestLayout(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		testenv.Skip(t, "no gcc")
	}
	dir := t.TempDir()
	for _, name := range []string{"boot_types.go", "zboot.go"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "boot"), os.DirFS("boot")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("make", "-s", "-C", filepath.Join(dir, "boot"), "types", "BUILD="+dir).CombinedOutput(); err != nil {
		t.Fatalf("make types: %v\n%s", err, out)
	}
	want, err := os.ReadFile(filepath.Join(dir, "zboot.go"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("zboot.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("zboot.go is not what boot/boot.h says (run: make -C internal/inject/boot types)")
	}
}

func TestSharedSize(t *testing.T) {
	if got := unsafe.Sizeof(bootShared{}); got != bootSharedSize {
		t.Errorf("shared file of %d bytes, want %d", got, bootSharedSize)
	}
}
