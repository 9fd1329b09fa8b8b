package function

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Unrecorded is the value of an argument that the record does not have.
const Unrecorded = "…"

// Argument is an argument of a call, as people read it.
type Argument struct {
	Name, Value string
	Out         bool // Value is what the argument pointed to when the call had returned
}

// Arguments returns the arguments of a call. The registers are rdi, rsi, rdx, rcx, r8, r9; the stack has the
// words that were recorded. If out is true, the register of the out-argument has what it pointed to.
func (f *Function) Arguments(registers [6]uint64, stack []uint64, out bool) []Argument {
	arguments := make([]Argument, len(f.Parameters))
	for i := range f.Parameters {
		p := &f.Parameters[i]
		a := Argument{Name: p.Name, Value: Unrecorded}
		if words, recorded := p.Place.words(registers[:], stack); recorded {
			a.Out = out && i == f.Out
			a.Value = f.value(p, words, a.Out)
		}
		arguments[i] = a
	}
	return arguments
}

// words returns the words of an argument.
func (p Place) words(registers, stack []uint64) (words []uint64, recorded bool) {
	area := registers
	switch p.In {
	case Stack:
		area = stack
	case Vectors:
		return nil, false
	}
	if p.First < 0 || p.Words <= 0 || p.First+p.Words > len(area) {
		return nil, false
	}
	return area[p.First : p.First+p.Words], true
}

func (f *Function) value(p *Parameter, words []uint64, out bool) string {
	switch {
	case out && f.OutBytes == 4:
		return strconv.Itoa(int(int32(words[0])))
	case out:
		return hex(words[0])
	case p.Type.Class == Unsigned && isBits(p.Name):
		return hex(low(words[0], p.Type.Size))
	}
	return f.typed(p.Type, words)
}

// isBits reports whether a number of this name is better read in hexadecimal.
func isBits(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "flags") || strings.Contains(name, "mask")
}

// ResultText returns the result of a call; "" for a function that has none.
func (f *Function) ResultText(result uint64) string {
	switch {
	case f.Result.Class == Void, f.Result.Class == Floating:
		return ""
	case f.Result.Class == Structure && f.Result.Size > 8:
		return hex(result) // rax has its address, or only a part of it
	}
	return f.typed(f.Result, []uint64{result})
}

// typed returns the value of a type in words that hold it.
func (f *Function) typed(t Type, words []uint64) string {
	if t.Class != Structure {
		return f.scalar(t, words[0])
	}
	memory := make([]byte, 0, 8*len(words)+8)
	for _, w := range words {
		memory = binary.LittleEndian.AppendUint64(memory, w)
	}
	return f.structure(f.types[t.Tag], memory)
}

// structure returns {a, b, c}; a handle, which is a structure of one member, is returned like a pointer.
func (f *Function) structure(s Struct, memory []byte) string {
	if len(s) == 1 && s[0].Name == "handle" {
		return hex(binary.LittleEndian.Uint64(memory))
	}
	members := make([]string, len(s))
	for i, m := range s {
		members[i] = Unrecorded
		if m.Type.Class != Opaque && m.Offset+m.Type.Size <= len(memory) {
			var word [8]byte
			copy(word[:], memory[m.Offset:])
			members[i] = f.scalar(m.Type, binary.LittleEndian.Uint64(word[:]))
		}
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// scalar returns a value of at most 8 bytes; what lies above it in the word is undefined.
func (f *Function) scalar(t Type, word uint64) string {
	word = low(word, t.Size)
	switch t.Class {
	case Boolean:
		return strconv.FormatBool(word&0xff != 0)
	case Signed:
		above := 64 - 8*t.Size
		return strconv.FormatInt(int64(word<<above)>>above, 10)
	case Unsigned:
		return strconv.FormatUint(word, 10)
	case Enumeration:
		if name := f.enums[t.Tag][uint32(word)]; name != "" {
			return name
		}
		return strconv.Itoa(int(int32(word)))
	}
	return hex(word)
}

// low returns the lowest bytes of a word.
func low(word uint64, bytes int) uint64 {
	if bytes >= 8 {
		return word
	}
	return word & (1<<(8*bytes) - 1)
}

func hex(v uint64) string { return "0x" + strconv.FormatUint(v, 16) }

// Word returns the first word of the argument with a name, of the size of its type; false: the function has no
// such parameter, or the record does not have it. Registers and stack are as for Arguments.
func (f *Function) Word(name string, registers [6]uint64, stack []uint64) (uint64, bool) {
	for i := range f.Parameters {
		p := &f.Parameters[i]
		if p.Name != name {
			continue
		}
		words, recorded := p.Place.words(registers[:], stack)
		if !recorded {
			return 0, false
		}
		if p.Type.Size < 8 && i != f.Out {
			return low(words[0], p.Type.Size), true
		}
		return words[0], true
	}
	return 0, false
}
