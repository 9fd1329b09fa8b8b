// Package srcline finds the source lines of addresses in the line tables of ELF files (DWARF 2 to 5, "Line Number
// Information"). A file may be hostile, and large: a table is read once from its beginning to its end, a unit at a time, and what
// is kept is limited by the number of wanted addresses.
package srcline

import (
	"bytes"
	"encoding/binary"
	"io"
	"path"
	"slices"
)

// Sections with strings.
const (
	lineStrings   = ".debug_line_str"
	commonStrings = ".debug_str"
	noStrings     = "-"
)

// Limits of a search.
const (
	stepsMax = 1 << 28 // instructions, and comparisons
	lineMax  = 1 << 31
	nameMax  = 4 << 10  // bytes of a file's or a directory's name; a longer one is cut
	namesMax = 16 << 20 // bytes of all names
	askEvery = 1 << 16  // steps
)

// File is an ELF file.
type File interface {
	// Section opens a section by its name; nil: there is none.
	Section(name string) io.Reader
}

// Line is a line of a source file. File is "" if only the line is known.
type Line struct {
	File string
	Line int
}

// Find returns the lines of the wanted addresses of a file, as far as its line table says. It leaves out what is not
// in code: linkers leave there what they have dropped. It stops early when goOn returns false.
func Find(f File, code func(address uint64) bool, wanted []uint64, goOn func() bool) map[uint64]Line {
	s := &search{code: code, goOn: goOn, wanted: slices.Clone(wanted), steps: stepsMax, names: map[text]string{}, joined: map[[3]text]string{}, room: namesMax}
	slices.Sort(s.wanted)
	s.wanted = slices.Compact(s.wanted)
	s.found = make([]found, len(s.wanted))
	if table := f.Section(".debug_line"); table != nil && len(wanted) > 0 {
		s.units(table)
	}
	s.readNames(f, lineStrings)
	s.readNames(f, commonStrings)
	lines := map[uint64]Line{}
	for i, l := range s.found {
		if l.line > 0 {
			lines[s.wanted[i]] = Line{s.file(l.parts), l.line}
		}
	}
	return lines
}

// search is a search for lines.
type search struct {
	code   func(uint64) bool
	goOn   func() bool
	wanted []uint64
	found  []found
	steps  int // that are left
	unit   []byte
	names  map[text]string
	joined map[[3]text]string // names of files
	room   int                // bytes of names that may still be kept
}

// found is a line, with the parts of its file's name: the name, its directory, and what this is relative to.
type found struct {
	line  int
	parts [3]text
}

// spend takes steps, and reports whether the search goes on.
func (s *search) spend(steps int) bool {
	before := s.steps
	s.steps -= steps
	if s.steps/askEvery != before/askEvery && !s.goOn() {
		s.steps = 0
	}
	return s.steps > 0
}

// units reads the units of a table.
func (s *search) units(table io.Reader) {
	var head [12]byte
	for s.steps > 0 && s.goOn() {
		if _, err := io.ReadFull(table, head[:4]); err != nil {
			return
		}
		length, is64 := uint64(binary.LittleEndian.Uint32(head[:])), false
		if length >= 0xfffffff0 {
			if is64 = length == 0xffffffff; !is64 {
				return
			}
			if _, err := io.ReadFull(table, head[4:]); err != nil {
				return
			}
			length = binary.LittleEndian.Uint64(head[4:])
		}
		if length > unitMax {
			if n, err := io.CopyN(io.Discard, table, int64(min(length, 1<<40))); err != nil || uint64(n) < length {
				return
			}
			continue
		}
		var b bytes.Buffer // grows with what is there
		if n, err := io.CopyN(&b, table, int64(length)); err != nil || uint64(n) < length {
			return
		}
		if h, ok := readHeader(b.Bytes(), is64); ok {
			s.unit = b.Bytes()
			(&program{search: s, header: &h}).run()
		}
	}
}

// copied returns a text that is valid without the unit.
func (s *search) copied(t text) text {
	if t.section != "" {
		s.names[t] = ""
		return t
	}
	b := s.unit[min(t.at, uint64(len(s.unit))):]
	name, _, _ := bytes.Cut(b[:min(len(b), nameMax)], []byte{0})
	own := text{noStrings + string(name), 0}
	if _, known := s.names[own]; known || s.room < len(name) {
		return own
	}
	s.room -= len(name)
	s.names[own] = string(name)
	return own
}

// readNames reads the wanted strings of a section, in their order.
func (s *search) readNames(f File, section string) {
	var wanted []text
	for t := range s.names {
		if t.section == section {
			wanted = append(wanted, t)
		}
	}
	if len(wanted) == 0 {
		return
	}
	slices.SortFunc(wanted, func(a, b text) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	r := f.Section(section)
	if r == nil {
		return
	}
	window := newWindow(r)
	for _, t := range wanted {
		if !s.goOn() || !window.skipTo(t.at) {
			return
		}
		if name := window.text(); s.room >= len(name) {
			s.room -= len(name)
			s.names[t] = name
		}
	}
}

// file puts the parts of a file's name together.
func (s *search) file(parts [3]text) string {
	name, known := s.joined[parts]
	if known {
		return name
	}
	name = s.join(parts)
	if s.room < len(name) {
		return ""
	}
	s.room -= len(name)
	s.joined[parts] = name
	return name
}

func (s *search) join(parts [3]text) (name string) {
	for _, p := range parts {
		part := s.names[p]
		if path.IsAbs(name) || part == "" {
			continue
		}
		if name == "" {
			name = part
		} else {
			name = path.Join(part, name)
		}
	}
	return name
}
