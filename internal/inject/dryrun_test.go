package inject

import (
	"context"
	"errors"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestDryRun: DryRun predicts what an injection finds, and stops no thread unless it
// has to read filters.
func TestDryRun(t *testing.T) {
	for _, tc := range []struct {
		name    string
		args    []string
		letter  string
		read    bool
		filters bool
		err     error
	}{
		{name: "busy", args: []string{"spin", "futex"}},
		{name: "odd", args: []string{"clone=refuse"}, letter: "s", filters: true},
		{name: "odd", args: []string{"clone=refuse"}, letter: "s", filters: true, read: true, err: target.ErrSeccomp},
		{name: "odd", args: []string{"reboot=kill"}, letter: "s", filters: true, read: true},
		{name: "odd", args: []string{"restart=kill", "polls"}, letter: "s", filters: true, read: true, err: target.ErrSeccomp},
	} {
		v := victim.Start(t, tc.name, tc.args...)
		if tc.letter != "" {
			if answer := v.Ask(t, tc.letter); answer != "0" {
				testenv.Skip(t, "no seccomp filter can be installed")
			}
		}
		o, err := DryRun(open(t, v), tracer(t), tc.read)
		if !errors.Is(err, tc.err) {
			t.Errorf("%v: %v", tc, err)
		}
		if o == nil || o.Threads == 0 || (o.Filters != 0) != tc.filters || o.Read != tc.read {
			t.Errorf("%v: %+v", tc, o)
		}
		if tc.name == "odd" {
			if said := v.Ask(t, "?"); said != "rounds 0 harm 0" {
				t.Errorf("%v: %s", tc, said)
			}
		}
	}
}

// TestUnreadFilters: a thread whose filters the tool could not read, or that it stopped
// for another purpose, does not run restart_syscall, for which its filter kills.
func TestUnreadFilters(t *testing.T) {
	for name, stop := range map[string]func(*testing.T, *victim.Victim){
		"reading fails": func(t *testing.T, v *victim.Victim) {
			fault := errors.New("made to fail")
			Fault = func(p Point) error {
				if p == PointFilterStopped {
					return fault
				}
				return nil
			}
			defer func() { Fault = nil }()
			if o, err := DryRun(open(t, v), tracer(t), true); !errors.Is(err, fault) {
				t.Errorf("%+v, %v", o, err)
			}
		},
		"one look": func(t *testing.T, v *victim.Victim) {
			tr := tracer(t)
			for range 20 { // once at least it is in its wait
				if _, err := tr.StopOnce(v.PID, v.PID, -1, true); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := victim.Start(t, "odd", "restart=kill", "polls")
			if v.Ask(t, "s") != "0" {
				testenv.Skip(t, "no seccomp filter can be installed")
			}
			stop(t, v)
			if said := v.Ask(t, "?"); said != "rounds 0 harm 0" {
				t.Error(said)
			}
		})
	}
}

// TestLoading: onceLoaded waits a limited time for a target that loads libraries.
func TestLoading(t *testing.T) {
	v := victim.Start(t, "plain")
	tg := open(t, v)
	maps, err := tg.Maps()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := tg.Modules(maps)
	if err != nil {
		t.Fatal(err)
	}
	debug, err := find(modules, "_r_debug")
	if err != nil || debug == 0 {
		t.Fatalf("_r_debug: %#x, %v", debug, err)
	}
	set := func(state byte) {
		if err := tg.Write(debug+24, []byte{state}); err != nil { // r_state
			t.Fatal(err)
		}
	}
	set(1) // RT_ADD
	if _, err := DryRun(tg, tracer(t), false); !errors.Is(err, target.ErrLoading) {
		t.Errorf("while it loads: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := resolve(ctx, tg); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	looks := 0
	err = onceLoaded(t.Context(), func() error {
		if looks++; looks == 3 {
			set(0)
		}
		_, err := tg.Modules(maps)
		return err
	})
	if err != nil || looks != 3 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	if _, err := DryRun(tg, tracer(t), false); err != nil {
		t.Errorf("when it has loaded: %v", err)
	}
}
