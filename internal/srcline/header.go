package srcline

// Limits of what is kept of a unit. A unit of a library that was linked as a whole has some MiB.
const (
	unitMax    = 64 << 20 // bytes
	entriesMax = 1 << 16  // directories, and files
	formatsMax = 16       // fields of an entry
)

// Forms of fields (DWARF 5, 7.5.6), and their meanings in a line table (7.22).
const (
	formData2   = 0x05
	formData4   = 0x06
	formData8   = 0x07
	formString  = 0x08
	formBlock   = 0x09
	formData1   = 0x0b
	formSdata   = 0x0d
	formStrp    = 0x0e
	formUdata   = 0x0f
	formStrpSup = 0x1d
	formData16  = 0x1e
	formLineStr = 0x1f

	contentPath      = 1
	contentDirectory = 2
)

// text is where a string is: in a section, or with the section "" in the unit.
type text struct {
	section string
	at      uint64
}

// entry is a file, or a directory, which has no directory.
type entry struct {
	name      text
	directory uint64
}

// header is the beginning of a unit of .debug_line.
type header struct {
	version      uint64
	is64         bool
	least        uint64 // bytes of an instruction
	lineBase     int8
	lineRange    uint8
	opcodeBase   uint8
	arguments    []byte // of the standard opcodes
	directories  []entry
	files        []entry
	instructions []byte
}

// readHeader reads the header of a unit without its length; ok is false if it is malformed, or of an unknown version.
func readHeader(b []byte, is64 bool) (h header, ok bool) {
	r := &reader{b: b}
	h = header{version: r.uint(2), is64: is64}
	if h.version < 2 || h.version > 5 {
		return h, false
	}
	if h.version >= 5 {
		if address, segment := r.u8(), r.u8(); address != 8 || segment != 0 {
			return h, false
		}
	}
	length := r.offset(is64)
	if r.bad || length > uint64(len(b)-r.at) {
		return h, false
	}
	h.instructions = b[r.at+int(length):]
	r.b = b[:r.at+int(length)]
	h.least = uint64(r.u8())
	if h.version >= 4 {
		r.u8() // operations of an instruction: one, here
	}
	r.u8() // is_stmt
	h.lineBase, h.lineRange, h.opcodeBase = int8(r.u8()), r.u8(), r.u8()
	if r.bad || h.lineRange == 0 || h.opcodeBase == 0 {
		return h, false
	}
	h.arguments = r.take(uint64(h.opcodeBase - 1))
	if h.version >= 5 {
		h.directories, h.files = entries5(r, is64), entries5(r, is64)
	} else {
		h.directories, h.files = entries2(r, false), entries2(r, true)
	}
	return h, !r.bad
}

// entries2 reads a table of DWARF 2 to 4, whose numbers begin with 1. The directory 0 is not in it.
func entries2(r *reader, files bool) []entry {
	all := make([]entry, 1)
	for !r.bad {
		at := r.skipString()
		if r.bad || r.at == at+1 {
			break
		}
		e := entry{name: text{at: uint64(at)}}
		if files {
			e.directory = r.uleb()
			r.uleb() // time
			r.uleb() // bytes
		}
		if len(all) < entriesMax {
			all = append(all, e)
		}
	}
	return all
}

// entries5 reads a table of DWARF 5, whose numbers begin with 0.
func entries5(r *reader, is64 bool) (all []entry) {
	type field struct{ content, form uint64 }
	fields := make([]field, r.u8())
	for i := range fields {
		fields[i] = field{r.uleb(), r.uleb()}
	}
	count := r.uleb()
	if len(fields) > formatsMax || len(fields) == 0 && count > 0 { // entries of no bytes
		r.bad = true
		return nil
	}
	for i := uint64(0); i < count && !r.bad; i++ {
		var e entry
		for _, f := range fields {
			where, number := readField(r, f.form, is64)
			switch f.content {
			case contentPath:
				e.name = where
			case contentDirectory:
				e.directory = number
			}
		}
		if len(all) < entriesMax {
			all = append(all, e)
		}
	}
	return all
}

// readField reads a field: where a string is, or a number.
func readField(r *reader, form uint64, is64 bool) (where text, number uint64) {
	switch form {
	case formString:
		return text{at: uint64(r.skipString())}, 0
	case formLineStr:
		return text{lineStrings, r.offset(is64)}, 0
	case formStrp:
		return text{commonStrings, r.offset(is64)}, 0
	case formStrpSup: // in a file that is not searched for
		return text{noStrings, r.offset(is64)}, 0
	case formData1:
		return text{}, r.uint(1)
	case formData2:
		return text{}, r.uint(2)
	case formData4:
		return text{}, r.uint(4)
	case formData8:
		return text{}, r.uint(8)
	case formData16:
		r.take(16)
	case formUdata:
		return text{}, r.uleb()
	case formSdata:
		return text{}, uint64(r.sleb())
	case formBlock:
		r.take(r.uleb())
	default:
		r.bad = true
	}
	return text{}, 0
}
