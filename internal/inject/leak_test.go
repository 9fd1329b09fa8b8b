package inject

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/victim"
)

// anonymous returns the victim's anonymous memory in KiB: heaps and stacks.
func anonymous(t *testing.T, v *victim.Victim) (kib, maps int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.PID))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "RssAnon:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	b, err = os.ReadFile(fmt.Sprintf("/proc/%d/maps", v.PID))
	if err != nil {
		t.Fatal(err)
	}
	return kib, strings.Count(string(b), "\n")
}

// TestMemoryIsFlat: 37. A library that is there already is called again and
// again: nothing else may remain of any call.
func TestMemoryIsFlat(t *testing.T) {
	v := victim.Start(t, "busy", "futex", "read", "futex")
	tr := tracer(t)
	r := Request{LibraryPath: victim.Path(t, "payload.so"), Entry: "rtl_attach"}
	for range 40 { // libc makes arenas up to its limit, and caches a stack
		inject(t, v, tr, r)
	}
	before := v.Inventory(t)
	kib, maps := anonymous(t, v)
	n := 300
	if testing.Short() {
		n = 60
	}
	for range n {
		inject(t, v, tr, r)
	}
	kibNow, mapsNow := anonymous(t, v)
	t.Logf("%d injections: memory %d -> %d KiB, mappings %d -> %d", n, kib, kibNow, maps, mapsNow)
	const noise, each = 64, 64 // KiB in all: a page is touched now and then; and bytes a time
	if grown := kibNow - kib; grown > noise+n*each/1024 || mapsNow != maps {
		t.Errorf("%d KiB, %d mappings", grown, mapsNow-maps)
	}
	v.AsBefore(t, before)
	v.Unharmed(t)
}
