package python

import "slices"

// lineEnd is an entry of a decoded table of lines: instructions before end (bytes from the first), and not before the
// entry before, belong to line; 0: to none.
type lineEnd struct {
	end  uint32
	line int32
}

const lineBytes = 8 // of a lineEnd

// Kinds of entries in a table of lines (Objects/locations.md of CPython).
const (
	kindOneLine = 10 // 10, 11, 12: so many lines on, and two bytes of columns
	kindNoCols  = 13
	kindLong    = 14
	kindNone    = 15
)

// decodeLines decodes the table of lines of CPython 3.11 and later. first is the line of the function, size the bytes of
// its instructions. A table that is damaged gives what comes before the damage.
func decodeLines(table []byte, first, size int) (lines []lineEnd) {
	line, at := first, 0
	for len(table) > 0 && at < size {
		kind, units := int(table[0]>>3&15), int(table[0]&7)+1
		if table[0]&0x80 == 0 { // the beginning of an entry has it
			return lines
		}
		table = table[1:]
		switch {
		case kind == kindNone:
		case kind == kindLong:
			line += signed(varint(&table))
			for range 3 { // the end's line, and columns
				varint(&table)
			}
		case kind == kindNoCols:
			line += signed(varint(&table))
		case kind >= kindOneLine:
			line += kind - kindOneLine
			table = table[min(2, len(table)):]
		default:
			table = table[min(1, len(table)):]
		}
		at += 2 * units
		entry := lineEnd{uint32(at), int32(line)}
		if kind == kindNone || line < 0 || line > 1<<30 {
			entry.line = 0
		}
		if last := len(lines) - 1; last >= 0 && lines[last].line == entry.line {
			lines[last].end = entry.end
			continue
		}
		lines = append(lines, entry)
	}
	return lines
}

// varint reads a number of 6 bits a byte, the lowest first.
func varint(b *[]byte) (v int) {
	for shift := 0; len(*b) > 0 && shift <= 30; shift += 6 {
		x := (*b)[0]
		*b = (*b)[1:]
		v |= int(x&0x3f) << shift
		if x&0x40 == 0 {
			break
		}
	}
	return v
}

// signed has the sign of a varint in its lowest bit.
func signed(v int) int {
	if v&1 != 0 {
		return -(v >> 1)
	}
	return v >> 1
}

// lineAt returns the line of an instruction at an offset in bytes; before the first it is the function's own.
func lineAt(lines []lineEnd, offset int64, first int) int {
	if offset < 0 {
		return max(first, 0)
	}
	i, _ := slices.BinarySearchFunc(lines, offset, func(e lineEnd, at int64) int {
		if int64(e.end) <= at {
			return -1
		}
		return 1
	})
	if i == len(lines) {
		return 0
	}
	return int(lines[i].line)
}
