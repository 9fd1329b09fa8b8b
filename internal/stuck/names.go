package stuck

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// names finds the names of kernels. The HSA runtime lists the code objects that it has loaded for
// debuggers: where each was loaded to, and where its file is (_amdgpu_r_debug).
type names struct {
	mem     io.ReaderAt
	open    func(string) (*os.File, error)
	objects []target.Loaded // by address
	tables  map[target.Addr][]target.Symbol
	known   map[uint64]string
	err     error // why there is no list
}

// machine is that of code objects for AMD's GPUs.
const machine = elf.Machine(224) // EM_AMDGPU

func newNames(t *target.Target, maps []target.Map) *names {
	n := &names{mem: t, open: t.OpenRegular, tables: map[target.Addr][]target.Symbol{}, known: map[uint64]string{}}
	for _, m := range maps {
		if m.Offset != 0 || m.Inode == 0 || !strings.HasPrefix(path.Base(m.Path), "libhsa-runtime64.so") {
			continue
		}
		image, err := target.OpenImage(t, m.Start)
		if err != nil {
			n.err = err
			continue
		}
		at, ok, err := image.Symbol("_amdgpu_r_debug")
		if err != nil || !ok {
			n.err = cmp.Or(err, fmt.Errorf("the runtime has no list of code objects for debuggers"))
			continue
		}
		objects, err := target.LoadedObjects(t, at)
		if n.objects = append(n.objects, objects...); err != nil {
			n.err = err
		}
	}
	slices.SortFunc(n.objects, func(a, b target.Loaded) int { return cmp.Compare(a.Bias, b.Bias) })
	return n
}

// kernel returns the readable name of the kernel whose descriptor is at an address; "": not found.
func (n *names) kernel(descriptor uint64) string {
	if name, ok := n.known[descriptor]; ok {
		return name
	}
	name := ""
	i, _ := slices.BinarySearchFunc(n.objects, target.Addr(descriptor), func(o target.Loaded, at target.Addr) int {
		if o.Bias <= at {
			return -1
		}
		return 1
	})
	if i > 0 {
		o := n.objects[i-1]
		for _, s := range n.table(o) {
			if s.Start == target.Addr(descriptor)-o.Bias && strings.HasSuffix(s.Name, ".kd") {
				name = tracedb.KernelName(s.Name)
				break
			}
		}
	}
	const namesMax = 1 << 16
	if len(n.known) < namesMax {
		n.known[descriptor] = name
	}
	return name
}

// table returns the symbols of a code object.
func (n *names) table(o target.Loaded) []target.Symbol {
	if table, ok := n.tables[o.Bias]; ok {
		return table
	}
	var table []target.Symbol
	if r, done, err := n.file(o.Name); err == nil {
		table, _ = target.SymbolsOf(r, machine, elf.STT_OBJECT)
		done()
	}
	const tablesMax = 256
	if len(n.tables) < tablesMax {
		n.tables[o.Bias] = table
	}
	return table
}

// file opens the file of a code object.
func (n *names) file(uri string) (io.ReaderAt, func(), error) {
	u, err := parseURI(uri)
	if err != nil {
		return nil, nil, err
	}
	if u.path == "" {
		return io.NewSectionReader(n.mem, int64(u.offset), int64(u.size)), func() {}, nil
	}
	f, err := n.open(u.path)
	if err != nil {
		return nil, nil, err
	}
	if u.size == 0 {
		u.size = 1 << 40
	}
	return io.NewSectionReader(f, int64(u.offset), int64(u.size)), func() { f.Close() }, nil
}

// place is where a code object's file is: in a file, or in memory.
type place struct {
	path         string // "": memory
	offset, size uint64
}

// parseURI parses the name of a code object: file://PATH[#offset=N&size=N], or
// memory://PID#offset=N&size=N.
func parseURI(uri string) (p place, err error) {
	bad := func() (place, error) { return place{}, fmt.Errorf("code object %q: %w", uri, target.ErrMalformed) }
	uri, query, _ := strings.Cut(uri, "#")
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		number, err := strconv.ParseUint(value, 0, 47)
		switch {
		case pair == "":
		case err != nil:
			return bad()
		case key == "offset":
			p.offset = number
		case key == "size":
			p.size = number
		}
	}
	if name, ok := strings.CutPrefix(uri, "file://"); ok {
		if p.path, err = url.PathUnescape(name); err != nil || !path.IsAbs(p.path) {
			return bad()
		}
		return p, nil
	}
	if !strings.HasPrefix(uri, "memory://") || p.offset == 0 || p.size == 0 {
		return bad()
	}
	return p, nil
}
