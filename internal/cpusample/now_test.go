package cpusample

import (
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// An observation says what goes on, again and again, and finds its frames in their files, without its end; after its end, too, until it is
// closed.
func TestNow(t *testing.T) {
	testenv.NeedRoot(t)
	r, err := Open(Options{CPU: Clock{HZ: 499}, Scheduling: true})
	if HasNoBPF(err) {
		testenv.Skip(t, err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	self, err := target.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	p, err := r.Add(self)
	if err != nil {
		t.Fatal(err)
	}
	var all cputrace.Batch
	sampled := func() bool {
		for range 1 << 20 { // it runs
			runtime.KeepAlive(all.Samples)
		}
		rows := p.Take()
		all.Frames, all.Samples = append(all.Frames, rows.Frames...), append(all.Samples, rows.Samples...)
		return len(all.Samples) >= 3
	}
	if !hang.Eventually(sampled) {
		t.Fatal("no sample of a program that runs")
	}
	now, err := p.Now()
	if err != nil || now.AtNS <= p.Window().BegunNS || len(now.Waits) == 0 {
		t.Errorf("%+v, %v", now, err)
	}
	for _, w := range now.Waits {
		if w.InNS != 0 || w.OutNS > now.AtNS {
			t.Errorf("a wait that goes on: %+v", w)
		}
	}
	ids := map[uint32]bool{}
	for _, f := range all.Frames {
		ids[f.ID] = true
	}
	isFound := func(f cputrace.Frame) bool { return f.HasOffset && ids[f.ID] } // the test's program has no symbols
	if found := p.Names(ids); !slices.ContainsFunc(found, isFound) {
		t.Errorf("of %d frames none is found in its file: %+v", len(ids), found)
	}
	p.Stop()
	if after, err := p.Now(); err != nil || after.AtNS < now.AtNS || len(after.Waits) != 0 {
		t.Errorf("after its end: %+v, %v", after, err)
	}
	p.Close()
	if named := p.Names(ids); len(named) != 0 {
		t.Errorf("%d names of a process that is closed", len(named))
	}
}
