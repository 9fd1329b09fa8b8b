package cpusample

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestLines: a thread that spins in a function is on one of its lines.
func TestLines(t *testing.T) {
	v := victim.Start(t, "frames")
	tg, err := target.Open(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	p, err := ObservePerf(tg, Options{CPU: Clock{HZ: 499}})
	if err != nil {
		testenv.Skip(t, err.Error())
	}
	samples := 0
	if !hang.Eventually(func() bool {
		b := p.Take()
		samples += len(b.Samples)
		return samples > 20
	}) {
		t.Fatal("its threads do not run")
	}
	p.Stop()
	source, err := os.ReadFile("../../testdata/victims/frames.c")
	if err != nil {
		t.Fatal(err)
	}
	begin := 1 + bytes.Count(source[:bytes.Index(source, []byte("INSIDE static long spin_inside"))], []byte("\n"))
	found := false
	for _, f := range p.names() {
		if f.Line == 0 || !strings.HasPrefix(f.Name, "spin_inside") {
			continue
		}
		found = true
		if filepath.Base(f.File) != "frames.c" || f.Line < begin || f.Line > begin+7 || filepath.Base(f.Object) != "frames" {
			t.Errorf("%+v, the function begins on line %d", f, begin)
		}
	}
	if !found || slices.ContainsFunc(p.notes, func(n string) bool { return strings.HasPrefix(n, "source lines") }) {
		t.Errorf("no line of the function: %q", p.notes)
	}
}
