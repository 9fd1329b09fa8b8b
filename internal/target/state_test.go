package target_test

import (
	"errors"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestAsleep: a vfork parent sleeps uninterruptibly until its child ends.
func TestAsleep(t *testing.T) {
	v := victim.Start(t, "mapped")
	tg := open(t, v.PID)
	if err := tg.Asleep(); err != nil {
		t.Errorf("a reader: %v", err)
	}
	v.Tell(t, "v")
	wait(t, v.PID, "D")
	var asleep *target.AsleepError
	if err := tg.Asleep(); !errors.As(err, &asleep) || !errors.Is(err, target.ErrAsleep) || asleep.PID != v.PID {
		t.Errorf("a vfork parent: %v", err)
	}
	if answer := v.Ask(t, "e"); answer != "0" {
		t.Errorf("its child ended with %s", answer)
	}
}

// TestFileSymbol: what is in a file's symbol table, and in no dynamic one.
func TestFileSymbol(t *testing.T) {
	tg := open(t, victim.Start(t, "odd").PID)
	maps, err := tg.Maps()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := tg.Modules(maps)
	if err != nil {
		t.Fatal(err)
	}
	program := modules[0]
	if _, ok, err := program.Symbol("live_elsewhere"); ok || err != nil {
		t.Fatalf("in the dynamic table: %v, %v", ok, err)
	}
	addr, ok, err := tg.FileSymbol(maps, program, "live_elsewhere")
	if !ok || err != nil {
		t.Fatalf("in the file: %v, %v", ok, err)
	}
	if m, found := target.FindMap(maps, addr); !found || m.Perms != "r-xp" {
		t.Errorf("%#x lies in %+v", addr, m)
	}
	if _, ok, err := tg.FileSymbol(maps, program, "rtl_no_such_symbol"); ok || err != nil {
		t.Errorf("a symbol that does not exist: %v, %v", ok, err)
	}
}

// TestMusl: its loader has another name where a distribution keeps it elsewhere.
func TestMusl(t *testing.T) {
	tg := open(t, victim.Start(t, "musl").PID)
	maps, err := tg.Maps()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tg.Modules(maps); !errors.Is(err, target.ErrMusl) {
		t.Error(err)
	}
}
