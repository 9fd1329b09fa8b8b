package inject

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestCalls: a library by its path, twice, and one that takes its time.
func TestCalls(t *testing.T) {
	v := victim.Start(t, "busy", "futex", "read", "malloc")
	tr := tracer(t)
	before := v.Inventory(t)
	r := Request{LibraryPath: victim.Path(t, "payload.so"), Entry: "rtl_attach"}
	first, again := inject(t, v, tr, r), inject(t, v, tr, r)
	if first.EntryResult != 1 || again.EntryResult != 2 || first.LibraryHandle != again.LibraryHandle {
		t.Errorf("%+v, then %+v", first, again)
	}
	calls := 0
	inject(t, v, tr, Request{Library: payload(t, "payload.so"), Entry: "rtl_slow", Progress: func() { calls++ }})
	if calls < 3 { // on a starved machine, too
		t.Errorf("Progress was called %d times in 2 s", calls)
	}
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// TestTwoHundred is the soak that fits into a test run.
func TestTwoHundred(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 20
	}
	v := victim.Start(t, "busy")
	tr := tracer(t)
	before := v.Inventory(t)
	lib := payload(t, "payload.so")
	for range n {
		rep := inject(t, v, tr, Request{Library: lib, Entry: "rtl_mask"})
		if rep.EntryResult != 0 {
			t.Fatal("the entry does not run with all signals blocked but 32 and 33")
		}
	}
	h := v.Unharmed(t)
	v.AsBefore(t, before)
	t.Logf("%d injections, %d rounds of work in the target, no harm", n, h.Beats)
}

// TestAllocators: 54.
func TestAllocators(t *testing.T) {
	lib := payload(t, "payload.so")
	for _, name := range []string{"libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libasan.so.8"} {
		t.Run(name, func(t *testing.T) {
			dirs, _ := exec.Command("sh", "-c", "ls /usr/lib/x86_64-linux-gnu/"+name+" /usr/lib/gcc/x86_64-linux-gnu/*/"+name).Output()
			path, _, _ := strings.Cut(string(dirs), "\n")
			if path == "" {
				testenv.Skip(t, name+" is not installed")
			}
			cmd := exec.Command(victim.Path(t, "busy"), "spin", "malloc", "malloc", "futex", "read")
			cmd.Env = []string{"LD_PRELOAD=" + path, "ASAN_OPTIONS=detect_leaks=0"}
			v := victim.Run(t, cmd)
			tr := tracer(t)
			for range 20 {
				inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach"})
			}
			v.Unharmed(t)
		})
	}
}

// TestSeccomp: 44.
func TestSeccomp(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "needs CAP_SYS_ADMIN to read filters")
	}
	for _, tc := range []struct {
		filter, call string
	}{{"allow", ""}, {"memfd", "memfd_create"}, {"clone", "clone"}, {"kill", "memfd_create"}} {
		t.Run(tc.filter, func(t *testing.T) {
			v := victim.Start(t, "plain", tc.filter)
			_, err := Inject(context.Background(), open(t, v), tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
			var refused *SeccompError
			switch {
			case tc.call == "" && err != nil:
				t.Error(err)
			case tc.call != "" && (!errors.As(err, &refused) || refused.Call != tc.call || !errors.Is(err, target.ErrSeccomp)):
				t.Errorf("error %v, want a refusal because of %s", err, tc.call)
			}
			v.Ask(t, "?")
		})
	}
}

// TestLimits: 46.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name     string
		resource int
		limit    uint64
		call     string
		want     error
	}{
		{"memory", unix.RLIMIT_AS, 1 << 20, "mmap", unix.ENOMEM},
		{"descriptors", unix.RLIMIT_NOFILE, 3, "memfd_create", unix.EMFILE},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := victim.Start(t, "busy", "futex", "read")
			before := v.Inventory(t)
			var old unix.Rlimit
			if err := unix.Prlimit(v.PID, tc.resource, nil, &old); err != nil {
				t.Fatal(err)
			}
			if err := unix.Prlimit(v.PID, tc.resource, &unix.Rlimit{Cur: tc.limit, Max: old.Max}, nil); err != nil {
				t.Fatal(err)
			}
			tr := tracer(t)
			r := Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"}
			_, err := Inject(context.Background(), open(t, v), tr, r)
			var failed *BootError
			if !errors.As(err, &failed) || failed.Call != tc.call || !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v of %s", err, tc.want, tc.call)
			}
			v.Unharmed(t)
			v.AsBefore(t, before)
			if err := unix.Prlimit(v.PID, tc.resource, &old, nil); err != nil {
				t.Fatal(err)
			}
			inject(t, v, tr, r)
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
}

// TestZombieLeader: 17.
func TestZombieLeader(t *testing.T) {
	v := victim.Start(t, "zombie")
	rep := inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
	if rep.TID == v.PID {
		t.Errorf("used the dead leader: %+v", rep)
	}
	v.Ask(t, "?")
}

// TestSetuidDuring: libc signals every thread with number 33, and waits for
// each; the bootstrap thread must not block it. Also 23: a fork meanwhile.
func TestSetuidDuring(t *testing.T) {
	v := victim.Start(t, "plain")
	for _, tc := range []struct{ letter, want string }{{"u", "0"}, {"f", "7"}} {
		answer := ""
		inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_slow", Progress: func() {
			if answer == "" {
				answer = v.Ask(t, tc.letter)
			}
		}})
		if answer != tc.want {
			t.Errorf("%q was answered %q, want %q", tc.letter, answer, tc.want)
		}
	}
}

// TestCodePoked: a kernel that lets only a tracer write read-only memory.
func TestCodePoked(t *testing.T) {
	v := victim.Start(t, "busy", "spin", "futex", "read")
	before := v.Inventory(t)
	rep := inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach", pokeCode: true})
	if rep.EntryResult != 1 {
		t.Errorf("entry returned %d", rep.EntryResult)
	}
	t.Logf("stops %v", rep.Pauses)
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// TestResident: an entry of a library that is there already, by address.
func TestResident(t *testing.T) {
	v := victim.Start(t, "busy", "futex", "read")
	tr, tg := tracer(t), open(t, v)
	first := inject(t, v, tr, Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
	maps, err := tg.Maps()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := tg.Modules(maps)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if uint64(m.LinkMap) != first.LibraryHandle {
			continue
		}
		entry, ok, err := m.Symbol("rtl_attach")
		if err != nil || !ok {
			t.Fatalf("rtl_attach: %v, %v", ok, err)
		}
		rep := inject(t, v, tr, Request{EntryAddr: entry, Env: env(5)})
		if rep.EntryResult != 50002 {
			t.Errorf("entry returned %d", rep.EntryResult)
		}
		return
	}
	t.Error("the library is not in the link map")
}

func TestCancel(t *testing.T) {
	v := victim.Start(t, "busy", "futex", "read")
	before := v.Inventory(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Inject(ctx, open(t, v), tracer(t), Request{
		Library: payload(t, "payload.so"), Entry: "rtl_slow",
		BootTimeout: hang.Limit, Progress: cancel,
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// TestCancelBetween: what was not begun when the user gave up is not begun any more.
func TestCancelBetween(t *testing.T) {
	for _, tc := range []struct {
		at             Point
		cloned, loaded bool
	}{
		{PointMapped, false, false},
		{PointWritten, false, false},
		{PointReady, true, false},
		{PointDelivered, true, false},
		{PointLoaded, true, true},
		{PointResolvedE, true, true},
	} {
		t.Run(string(tc.at), func(t *testing.T) {
			v := victim.Start(t, "busy", "futex", "read")
			before := v.Inventory(t)
			ctx, cancel := context.WithCancel(t.Context())
			Fault = func(now Point) error {
				if now == tc.at {
					cancel()
				}
				return nil
			}
			defer func() { Fault = nil }()
			rep, err := Inject(ctx, open(t, v), tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			cloned := slices.ContainsFunc(rep.Pauses, func(p Pause) bool { return p.Stop == "clone" })
			if loaded := rep.LibraryHandle != 0; cloned != tc.cloned || loaded != tc.loaded || rep.EntryResult != 0 {
				t.Errorf("a thread was made: %v, want %v; the library loaded: %v, want %v; the entry returned %d",
					cloned, tc.cloned, loaded, tc.loaded, rep.EntryResult)
			}
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
}
