package cpusample

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// stackOf is a record as the kernel writes it.
func stackOf(kind uint32, key uint64, calls, memory int, announced uint32) []byte {
	s := kernelStack{Event: kernelEvent{Kind: kind, Pid: 1, Tid: 2, OwnTid: 3, Time: 4}, Key: key, Calls: uint32(calls), Bytes: announced}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&s)), stackHeadBytes+memory)
	return bytes.Clone(b)
}

func TestReadStack(t *testing.T) {
	for _, c := range []struct {
		calls, memory int
		announced     uint32
		sound         bool
	}{
		{0, 0, 0, true},
		{96, 4096, 4096, true},
		{3, stackMax, stackMax, true},
		{3, 4096, 100, true},
		{97, 0, 0, false},
		{0, 100, 101, false},
		{0, stackMax, stackMax + 1, false},
		{0, 0, ^uint32(0), false},
	} {
		var s stackRecord
		err := readStack(stackOf(kindStack, 9, c.calls, c.memory, c.announced), &s)
		if (err == nil) != c.sound {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil && (len(s.calls) != c.calls || len(s.memory) != int(c.announced) || s.key != 9 || s.OwnTid != 3) {
			t.Errorf("%+v: %d calls, %d bytes", c, len(s.calls), len(s.memory))
		}
	}
	whole := stackOf(kindStack, 9, 3, 64, 64)
	for n := range whole {
		var s stackRecord
		if err := readStack(whole[:n], &s); err == nil {
			t.Errorf("%d of %d bytes are enough", n, len(whole))
		}
	}
}

// self is this process as one that is observed.
func self(t testing.TB) *Process {
	t.Helper()
	tg, err := target.OpenReadOnly(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	memory, err := tg.Observe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	p := &Process{recorder: &Recorder{}, target: tg, memory: memory, tree: newTree(), keys: newKeys()}
	if p.code, err = newCode(memory); err != nil {
		t.Fatal(err)
	}
	return p
}

// FuzzRecord: whatever the registers, the stack and the numbers of a record are, it becomes rows or is refused.
func FuzzRecord(f *testing.F) {
	f.Add(stackOf(kindSample, 0, 2, 64, 64))
	f.Add(stackOf(kindStack, 5, 0, 4096, 4096))
	for kind := uint32(kindWait); kind <= kindExit; kind++ {
		f.Add(binary.LittleEndian.AppendUint32(nil, kind))
		f.Add(append(binary.LittleEndian.AppendUint32(nil, kind), make([]byte, 120)...))
	}
	p := self(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		event, err := read[kernelEvent](b)
		if err != nil {
			return
		}
		var s stackRecord
		rows := cputrace.Batch{}
		if err := p.take(event.Kind, b, &s, &rows); err != nil && rows.Rows() > 0 {
			t.Errorf("refused, and %d rows", rows.Rows())
		}
		for _, st := range rows.Stacks {
			if st.Parent >= st.ID || st.Frame == 0 {
				t.Errorf("%+v", st)
			}
		}
	})
}

func TestTree(t *testing.T) {
	tree := newTree()
	var b cputrace.Batch
	leaf, middle, root := place{offset: 1}, place{offset: 2}, place{offset: 3}
	whole := tree.add([]place{leaf, middle, root}, false, &b)
	cut := tree.add([]place{leaf, middle, root}, true, &b)
	if whole == cut || whole == 0 || cut == 0 || len(b.Frames) != 3 || len(b.Stacks) != 6 {
		t.Errorf("stacks %d and %d: %d frames, %d nodes", whole, cut, len(b.Frames), len(b.Stacks))
	}
	if again := tree.add([]place{leaf, middle, root}, false, &b); again != whole || len(b.Stacks) != 6 {
		t.Errorf("the same stack is %d and %d", whole, again)
	}
	if part := tree.add([]place{middle, root}, false, &b); part == whole || len(b.Stacks) != 6 {
		t.Errorf("a part of a stack is %d, of %d nodes", part, len(b.Stacks))
	}
	if tree.add(nil, false, &b) != 0 || tree.full != 0 {
		t.Error("no frames make a stack")
	}
	if tree.add(make([]place, mostNodes), false, &b) != 0 || tree.full != 1 {
		t.Error("a stack without room is not counted")
	}
	long := strings.Repeat("x", mostText/2)
	if tree.add([]place{{name: long}}, false, &b) == 0 || tree.add([]place{{file: long, name: "y"}}, false, &b) != 0 || tree.full != 2 {
		t.Error("long names are not limited")
	}
}

// TestKeys: a key that is used remains known, one that is not goes after two generations at the latest.
func TestKeys(t *testing.T) {
	k := newKeys()
	k.put(1, 11)
	k.put(2, 22)
	for i := range uint64(3 * mostKeys) {
		k.put(100+i, 5)
		if i%1000 == 0 && k.get(1) != 11 {
			t.Fatalf("key 1 is gone after %d others", i)
		}
	}
	if k.get(2) != 0 || k.get(0) != 0 || len(k.young) > mostKeys || len(k.old) > mostKeys {
		t.Errorf("%d and %d keys", len(k.young), len(k.old))
	}
}

func TestIsWaker(t *testing.T) {
	const futex, read, write, nanosleep, tgkill = 202, 0, 1, 35, 234
	for _, c := range []struct {
		waker, sleeper int
		operation      uint64
		same, is       bool
	}{
		{futex, futex, privateFutex, true, true},
		{futex, futex, privateFutex, false, false},
		{futex, futex, 0, false, true},
		{read, futex, 0, true, false},
		{-1, futex, 0, true, false},
		{tgkill, futex, privateFutex, true, true},
		{write, read, 0, false, true},
		{-1, read, 0, true, false},
		{futex, nanosleep, 0, true, false},
		{tgkill, nanosleep, 0, false, false},
	} {
		if w := (&kernelWait{Syscall: int32(c.sleeper), Argument1: c.operation}); isWaker(c.waker, w, c.same) != c.is {
			t.Errorf("%+v", c)
		}
	}
}
