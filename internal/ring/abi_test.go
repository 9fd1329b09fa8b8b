package ring

import (
	"os"
	"os/exec"
	"testing"
	"unsafe"
)

// The sizes as Go sees them against those that the C compiler told cgo.
func TestLayoutSizes(t *testing.T) {
	for name, c := range map[string]struct{ got, want uintptr }{
		"control":     {unsafe.Sizeof(ControlLayout{}), ControlStructBytes},
		"counters":    {unsafe.Sizeof(Counters{}), CountersStructBytes},
		"grace":       {unsafe.Sizeof(GraceLayout{}), GraceStructBytes},
		"ring":        {unsafe.Sizeof(RingLayout{}), RingStructBytes},
		"dispatch":    {unsafe.Sizeof(Dispatch{}), LineBytes},
		"untimed":     {unsafe.Sizeof(Untimed{}), LineBytes},
		"window":      {unsafe.Sizeof(Window{}), LineBytes},
		"lost":        {unsafe.Sizeof(LostRecord{}), LineBytes},
		"string":      {unsafe.Sizeof(StringLine{}), LineBytes},
		"text":        {unsafe.Offsetof(StringLine{}.Text), stringTextOffset},
		"launch":      {unsafe.Sizeof(Launch{}), LineBytes},
		"queue":       {unsafe.Sizeof(Queue{}), LineBytes},
		"agent":       {unsafe.Sizeof(Agent{}), LineBytes},
		"code object": {unsafe.Sizeof(CodeObject{}), LineBytes},
		"end":         {unsafe.Sizeof(EndRecord{}), LineBytes},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d in Go, %d in C", name, c.got, c.want)
		}
	}
}

func TestABIIsCurrent(t *testing.T) {
	committed, err := os.ReadFile("abi.go")
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := exec.Command("go", "run", "./genabi", "-kinds", "-stdout").Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != string(fresh) {
		t.Error("abi.go is not what payload/src/abi.h says: run go generate ./internal/ring")
	}
}
