package inject

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// Numbers in names are those of the matrix in docs (injection.md).

// TestThreadStates: each target has only threads of these kinds.
func TestThreadStates(t *testing.T) {
	lib := payload(t, "payload.so")
	for _, tc := range []struct {
		name string
		args string
		rung string // "": any
	}{
		{"1-2-3 spinning leader, AVX-512, red zone", "spin futex", "released"},
		{"4-5 all in malloc", "-o spin malloc malloc malloc", "released"},
		{"7 only epoll_wait", "-o epoll epoll1 epoll1 epoll1", ""},
		{"7 epoll_wait without time-out", "-o epoll epoll epoll", ""},
		{"8 sigtimedwait, SO_RCVTIMEO", "-o epoll sigtimedwait recv recv", ""},
		{"9-10 only timed waits", "-o poll sleep3 sleep3 sleep3", "held"},
		{"11 sigsuspend, ppoll", "-o poll sigsuspend ppoll", ""},
		{"12 alternate stack", "-o poll altstack futex", "released"},
		{"25 threads come and go", "thread thread futex", "released"},
		{"27 real-time signals", "rtsignals read futex", "released"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := victim.Start(t, "busy", strings.Fields(tc.args)...)
			tr := tracer(t)
			for i := range 10 {
				rep := inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach", Env: env(i)})
				if want := int32(1 + 10000*i); rep.EntryResult != want {
					t.Fatalf("entry returned %d, want %d", rep.EntryResult, want)
				}
				if tc.rung != "" && rep.Rung != tc.rung {
					t.Errorf("rung %q, want %q; %+v", rep.Rung, tc.rung, rep)
				}
			}
			awaitSleepers(t, v)
			h := v.Unharmed(t)
			for _, th := range h.Threads {
				if th.Kind == "sleep3" && th.LateNS > uint64(100*time.Millisecond) {
					t.Errorf("a sleep of 3 s ended %v late", time.Duration(th.LateNS))
				}
			}
			if h.RTSent > h.RTGot+1 {
				t.Errorf("%d of %d real-time signals lost", h.RTSent-h.RTGot, h.RTSent)
			}
		})
	}
}

// awaitSleepers waits until each sleep of 3 s, begun before, has ended.
func awaitSleepers(t *testing.T, v *victim.Victim) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		asleep := false
		for _, th := range v.Health(t).Threads {
			asleep = asleep || (th.Kind == "sleep3" && th.Beats == 0)
		}
		if !asleep {
			return
		}
	}
	t.Error("a sleep of 3 s does not end")
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
				t.Skipf("%s is not installed", name)
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

// TestPayloads: 57 to 62.
func TestPayloads(t *testing.T) {
	v := victim.Start(t, "busy", "futex", "read", "malloc")
	tr := tracer(t)
	before := v.Inventory(t)
	for _, tc := range []struct {
		name string
		r    Request
		text string // of the error
	}{
		{
			"57 missing file",
			Request{LibraryPath: "/nowhere/payload.so", Entry: "rtl_attach"},
			"/nowhere/payload.so: cannot open shared object file: No such file or directory",
		},
		{
			"58 undefined symbol",
			Request{Library: payload(t, "undefined.so"), Entry: "rtl_attach"},
			"undefined symbol: rtl_nobody_has_this",
		},
		{
			"58 no such entry",
			Request{Library: payload(t, "payload.so"), Entry: "rtl_unknown"},
			"undefined symbol: rtl_unknown",
		},
		{
			"62 static TLS used up",
			Request{Library: payload(t, "tls.so"), Entry: "rtl_attach"},
			"cannot allocate memory in static TLS block",
		},
		{"no ELF file", Request{Library: []byte("#!/bin/sh\n"), Entry: "rtl_attach"}, "file too short"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Inject(context.Background(), open(t, v), tr, tc.r)
			var refused *LoadError
			if !errors.As(err, &refused) || !strings.Contains(refused.Text, tc.text) {
				t.Fatalf("error %v, want the loader's text %q", err, tc.text)
			}
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
	t.Run("57 a path in the target", func(t *testing.T) {
		rep := inject(t, v, tr, Request{LibraryPath: victim.Path(t, "payload.so"), Entry: "rtl_attach"})
		again := inject(t, v, tr, Request{LibraryPath: victim.Path(t, "payload.so"), Entry: "rtl_attach"})
		if rep.EntryResult != 1 || again.EntryResult != 2 || rep.LibraryHandle != again.LibraryHandle {
			t.Errorf("%+v, then %+v", rep, again)
		}
	})
	t.Run("61 entry returns an error", func(t *testing.T) {
		rep := inject(t, v, tr, Request{Library: payload(t, "payload.so"), Entry: "rtl_fail"})
		if rep.EntryResult != -int32(unix.EBUSY) {
			t.Errorf("entry returned %d", rep.EntryResult)
		}
	})
	t.Run("63 two libraries", func(t *testing.T) {
		one := inject(t, v, tr, Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
		two := inject(t, v, tr, Request{Library: payload(t, "payload2.so"), Entry: "rtl_attach"})
		if one.EntryResult != 1 || two.EntryResult != 1001 || one.LibraryHandle == two.LibraryHandle {
			t.Errorf("the second library was not the one called: %+v, then %+v", one, two)
		}
	})
	t.Run("progress", func(t *testing.T) {
		calls := 0
		inject(t, v, tr, Request{Library: payload(t, "payload.so"), Entry: "rtl_slow", Progress: func() { calls++ }})
		if calls < 500 {
			t.Errorf("Progress was called %d times in 2 s", calls)
		}
	})
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// TestTimeouts: 60, and an entry that takes too long. The thread leaves as
// soon as it is back.
func TestTimeouts(t *testing.T) {
	for _, tc := range []struct {
		name, lib, entry string
		r                Request
	}{
		{"60 constructor hangs", "slow.so", "rtl_attach", Request{LoadTimeout: 200 * time.Millisecond}},
		{"entry hangs", "payload.so", "rtl_slow", Request{EntryTimeout: 200 * time.Millisecond}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := victim.Start(t, "busy", "spin", "futex", "read")
			tr := tracer(t)
			before := v.Inventory(t)
			tc.r.Library, tc.r.Entry = payload(t, tc.lib), tc.entry
			rep, err := Inject(context.Background(), open(t, v), tr, tc.r)
			var late *TimeoutError
			var remains *RemainsError
			if !errors.As(err, &late) || !errors.As(err, &remains) {
				t.Fatalf("error %v, want a time-out and what remains", err)
			}
			for _, p := range rep.Pauses {
				if p.Stopped > 20*time.Millisecond {
					t.Errorf("a thread was stopped for %v", p.Stopped)
				}
			}
			for range 400 { // the call ends after 2 or 3 s
				if inv := v.Inventory(t); len(inv.Ours) == 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			v.AsBefore(t, before)
			v.Unharmed(t)
		})
	}
}

// TestDeath: 24, 59: the target dies of the payload, or goes away.
func TestDeath(t *testing.T) {
	t.Run("59 crash", func(t *testing.T) {
		v := victim.Start(t, "busy", "futex", "read")
		_, err := Inject(context.Background(), open(t, v), tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_crash"})
		if !errors.Is(err, target.ErrGone) || !strings.Contains(err.Error(), "entry") {
			t.Errorf("error %v, want one that says that the target died in the entry", err)
		}
	})
	for _, tc := range []struct {
		name string
		do   func(*testing.T, *victim.Victim)
		want error
	}{
		{"24 exit", func(t *testing.T, v *victim.Victim) { v.Tell(t, "q") }, target.ErrGone},
		{"22 exec", func(t *testing.T, v *victim.Victim) { v.Tell(t, "x") }, target.ErrExec},
		{"31 SIGKILL", func(_ *testing.T, v *victim.Victim) { _ = unix.Kill(v.PID, unix.SIGKILL) }, target.ErrGone},
	} {
		for _, p := range Points[1 : len(Points)-1] {
			t.Run(tc.name+" at "+string(p), func(t *testing.T) {
				v := victim.Start(t, "plain")
				tg := open(t, v)
				Fault = func(now Point) error {
					if now == p {
						tc.do(t, v)
					}
					return nil
				}
				defer func() { Fault = nil }()
				_, err := Inject(context.Background(), tg, tracer(t), Request{
					Library: payload(t, "payload.so"),
					Entry:   "rtl_slow", BootTimeout: 500 * time.Millisecond,
				})
				if p == PointCalled && err == nil {
					return // it had done everything
				}
				if !errors.Is(err, tc.want) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
			})
		}
	}
}

// TestToolStopped: 35: the tool is held up for longer than the bootstrap waits.
func TestToolStopped(t *testing.T) {
	v := victim.Start(t, "busy", "spin", "futex", "read")
	before := v.Inventory(t)
	for _, p := range []Point{
		PointMapped, PointWritten, PointCloned, PointReady, PointDelivered, PointLoaded,
		PointResolvedE, PointCalled,
	} {
		t.Run(string(p), func(t *testing.T) {
			Fault = func(now Point) error {
				if now == p {
					time.Sleep(300 * time.Millisecond)
				}
				return nil
			}
			defer func() { Fault = nil }()
			_, err := Inject(context.Background(), open(t, v), tracer(t), Request{
				Library: payload(t, "payload.so"),
				Entry:   "rtl_attach", IdleTimeout: 50 * time.Millisecond,
			})
			early, late := p == PointMapped || p == PointWritten, p == PointCalled
			if early && err != nil || !early && !late && !errors.Is(err, ErrLeft) {
				t.Errorf("error %v", err)
			}
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
}

// TestSeccomp: 44.
func TestSeccomp(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs CAP_SYS_ADMIN to read filters")
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
		BootTimeout: 4 * time.Second, Progress: cancel,
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	v.Unharmed(t)
	v.AsBefore(t, before)
}
