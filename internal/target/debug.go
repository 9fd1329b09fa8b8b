package target

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
)

// Limits of what is read for a file's debug information.
const (
	sectionNameMax = 64
	linkMax        = 4 << 10 // bytes of .gnu_debuglink
	debugFileMax   = 1 << 30 // bytes of a file whose checksum is made
)

// Section opens a section by its name; what is compressed in the file is read uncompressed. nil: there is none.
func (f *File) Section(name string) io.Reader {
	if int(f.names) >= len(f.sections) {
		return nil
	}
	names := f.sections[f.names]
	want := append([]byte(name), 0)
	for _, s := range f.sections {
		if elf.SectionType(s.Type) != elf.SHT_PROGBITS || len(want) > sectionNameMax {
			continue
		}
		b := make([]byte, len(want))
		if _, err := f.r.ReadAt(b, int64(names.Off+uint64(s.Name))); err == nil && bytes.Equal(b, want) {
			return open(f.r, s)
		}
	}
	return nil
}

// open reads a section as debug/elf does, which knows the ways of compression, but gets to see this section only: other parts
// of a hostile file could make it use memory without a limit. nil: it is malformed.
func open(r io.ReaderAt, s elf.Section64) io.Reader {
	if s.Off > sectionsMax || s.Size > sectionsMax {
		return nil
	}
	const before = 4 << 10 // the headers' place
	s.Name, s.Link, s.Off = 0, 0, s.Off+before
	h := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Ehsize: uint16(binary.Size(elf.Header64{})), Shentsize: uint16(binary.Size(s)), Shoff: uint64(binary.Size(elf.Header64{})), Shnum: 2,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var head bytes.Buffer
	for _, part := range []any{h, elf.Section64{}, s} {
		if err := binary.Write(&head, binary.LittleEndian, part); err != nil {
			return nil
		}
	}
	file, err := elf.NewFile(&shifted{head.Bytes(), r, before})
	if err != nil {
		return nil
	}
	return file.Sections[1].Open()
}

// shifted is a file after a head.
type shifted struct {
	head   []byte
	file   io.ReaderAt
	before int64
}

func (s *shifted) ReadAt(b []byte, at int64) (int, error) {
	if at >= s.before {
		return s.file.ReadAt(b, at-s.before)
	}
	if at < 0 || at >= int64(len(s.head)) {
		return 0, io.EOF
	}
	n := copy(b, s.head[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// IsCode reports whether an address of the file is in code.
func (f *File) IsCode(at Addr) bool {
	for _, p := range f.loads {
		if elf.ProgFlag(p.Flags)&elf.PF_X != 0 && uint64(at) >= p.Vaddr && uint64(at)-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}

// DebugLink returns the name of the file with the file's debug information, and that file's checksum (GDB, "Separate Debug
// Files"); "": it names none.
func (f *File) DebugLink() (name string, sum uint32) {
	r := f.Section(".gnu_debuglink")
	if r == nil {
		return "", 0
	}
	b, err := io.ReadAll(io.LimitReader(r, linkMax))
	if err != nil {
		return "", 0
	}
	text, _, ok := bytes.Cut(b, []byte{0})
	at := (len(text) + 4) &^ 3
	if name = string(text); !ok || at+4 > len(b) || name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return "", 0
	}
	return name, binary.LittleEndian.Uint32(b[at:])
}

// IsDebugOf reports whether the file was split off from another one: by the build IDs, or if one of them has none by the
// checksum in the other's debug link.
func (f *File) IsDebugOf(other *File) bool {
	if a, b := f.BuildID(), other.BuildID(); a != "" && b != "" {
		return a == b
	}
	name, want := other.DebugLink()
	if name == "" {
		return false
	}
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, io.NewSectionReader(f.r, 0, debugFileMax))
	return (err == nil || errors.Is(err, io.EOF)) && n < debugFileMax && sum.Sum32() == want
}
