package cpusample

import "github.com/rtl-attach/rtl-attach/internal/cputrace"

// Limits of the memory for one process: some 220 MB if all are reached. What is beyond them is counted.
const (
	mostFrames = 1 << 18
	mostNodes  = 1 << 20
	mostText   = 64 << 20 // bytes of the frames' names and files
	mostKeys   = 1 << 16  // of each of two generations
)

// place is what makes a frame one: of native code its module and its offset in the module's file, of Python its text.
type place struct {
	kind       int
	module     int
	offset     uint64
	name, file string
	line       int
}

// node is a frame and who has called it.
type node struct {
	parent, frame uint32
	cut           bool
}

// tree is the tree of a process's stacks. Ids begin with 1; 0 is no frame and no stack.
type tree struct {
	frames map[place]uint32
	nodes  map[node]uint32
	text   int    // bytes of the frames' names and files
	full   uint64 // stacks that had no room
}

func newTree() tree { return tree{frames: map[place]uint32{}, nodes: map[node]uint32{}} }

// add adds a stack, whose innermost frame is the first, and what is new in it to b. It returns the stack's id; 0: there
// is no frame, or no room.
func (t *tree) add(stack []place, cut bool, b *cputrace.Batch) (id uint32) {
	if len(t.frames)+len(stack) > mostFrames || len(t.nodes)+len(stack) > mostNodes || t.text+textOf(stack) > mostText {
		t.full++
		return 0
	}
	for i := len(stack) - 1; i >= 0; i-- {
		n := node{parent: id, frame: t.frame(stack[i], b), cut: cut && id == 0}
		known := t.nodes[n]
		if known == 0 {
			known = uint32(len(t.nodes) + 1)
			t.nodes[n] = known
			b.Stacks = append(b.Stacks, cputrace.Stack{ID: known, Parent: n.parent, Frame: n.frame, Cut: n.cut})
		}
		id = known
	}
	return id
}

func textOf(stack []place) (bytes int) {
	for i := range stack {
		bytes += len(stack[i].name) + len(stack[i].file)
	}
	return bytes
}

func (t *tree) frame(p place, b *cputrace.Batch) uint32 {
	id := t.frames[p]
	if id == 0 {
		id = uint32(len(t.frames) + 1)
		t.frames[p] = id
		t.text += len(p.name) + len(p.file)
		f := cputrace.Frame{ID: id, Kind: p.kind, Name: p.name, File: p.file, Line: p.line}
		if p.kind == cputrace.Native {
			f.Object = p.file
		}
		b.Frames = append(b.Frames, f)
	}
	return id
}

// keys are the stacks that the kernel names by a key. The kernel keeps fewer keys than one generation has, and
// each use renews a key here, so that every key that the kernel can name is known.
type keys struct{ young, old map[uint64]uint32 }

func newKeys() keys { return keys{young: map[uint64]uint32{}} }

func (k *keys) put(key uint64, stack uint32) {
	if len(k.young) >= mostKeys {
		k.old, k.young = k.young, map[uint64]uint32{}
	}
	k.young[key] = stack
}

// get returns the stack of a key; 0: none.
func (k *keys) get(key uint64) uint32 {
	if key == 0 {
		return 0
	}
	if stack, ok := k.young[key]; ok {
		return stack
	}
	stack, ok := k.old[key]
	if ok {
		k.put(key, stack)
	}
	return stack
}
