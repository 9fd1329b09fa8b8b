package cpusample

import (
	"errors"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/python"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/unwind"
)

// How often the mappings of a process are read again: soon when an address is in no known code, less often if that does
// not help, as with code that the process has made itself.
const (
	leastRenewal = 100 * time.Millisecond
	mostRenewal  = 5 * time.Second
)

// mostModules limits the files of a process that are told apart.
const mostModules = 1 << 14

// stackPointer is the register, in DWARF's order.
const stackPointer = 7

// noModule is the module of code in no file.
const noModule = 0

// module is a file with code, as it was mapped when it was first met.
type module struct {
	mapped target.Map
	image  []byte // of what is in no file: the vdso, which is gone with the process
}

// mostImage limits such an image; the vdso has 8 KiB.
const mostImage = 64 << 10

// fileOf identifies a module's file.
type fileOf struct {
	dev, path string
	inode     uint64
	start     target.Addr // of what is in no file: the vdso
}

// code is the code of a process: its mappings, and the walker of its stacks.
type code struct {
	memory  *target.Observed
	maps    []target.Map
	stacks  *unwind.Stacks
	modules []module // [noModule] is none
	ids     map[fileOf]int

	read  time.Time
	every time.Duration
}

func newCode(memory *target.Observed) (*code, error) {
	maps, err := memory.Maps()
	if err != nil {
		return nil, err
	}
	return &code{
		memory: memory, maps: maps, stacks: unwind.NewStacks(memory, maps), modules: make([]module, 1), ids: map[fileOf]int{},
		read: time.Now(), every: leastRenewal,
	}, nil
}

// walk appends the native frames of a stack, the innermost first. complete reports whether the last one is the
// thread's first.
func (c *code) walk(s *stackRecord, frames []python.Native) (all []python.Native, complete bool) {
	for tries := 0; ; tries++ {
		all = frames
		err := c.stacks.Walk(&s.registers, s.base, s.memory, func(pc, sp uint64) bool {
			all = append(all, python.Native{PC: pc, SP: sp})
			return true
		})
		if err == nil {
			return all, true
		}
		if tries > 0 || !errors.Is(err, unwind.ErrNoCode) || !c.renew() {
			return all, false
		}
	}
}

// renew reads the mappings again if it is time, and reports whether there is other code now.
func (c *code) renew() bool {
	if time.Since(c.read) < c.every {
		return false
	}
	maps, err := c.memory.Maps()
	c.read = time.Now()
	if err != nil || len(maps) == 0 || slices.Equal(executable(maps), executable(c.maps)) {
		c.every = min(2*c.every, mostRenewal)
		return false
	}
	c.every = leastRenewal
	c.maps = maps
	c.stacks.Renew(maps)
	return true
}

func executable(maps []target.Map) (code []target.Map) {
	for _, m := range maps {
		if m.Perms[2] == 'x' {
			code = append(code, m)
		}
	}
	return code
}

func (c *code) newModule(m target.Map) module {
	if size := m.End - m.Start; m.Inode == 0 && m.Path == "[vdso]" && size <= mostImage {
		image := make([]byte, size)
		if _, err := c.memory.ReadAt(image, int64(m.Start)); err == nil {
			return module{m, image}
		}
	}
	return module{mapped: m}
}

// locate returns the module of an address, and its offset in the file; of noModule the address.
func (c *code) locate(pc uint64) (id int, offset uint64) {
	m, ok := target.FindMap(c.maps, target.Addr(pc))
	if !ok || m.Path == "" {
		return noModule, pc
	}
	who := fileOf{dev: m.Dev, path: m.Path, inode: m.Inode}
	if m.Inode == 0 {
		who.start = m.Start
	}
	id, known := c.ids[who]
	if !known {
		if len(c.modules) >= mostModules {
			return noModule, pc
		}
		id = len(c.modules)
		c.modules, c.ids[who] = append(c.modules, c.newModule(m)), id
	}
	return id, pc - uint64(m.Start) + m.Offset
}
