// Package function describes the functions of HIP, of the HSA runtime and of RCCL whose calls are recorded:
// their parameters, where the x86-64 ABI puts them, and which of them the payload must leave alone.
// The facts (functions.txt) come from the public headers by scripts/callfunctions, which is run by
// hand when there are new ones; the rules (rules.go) are ours. The payload's table, functions.def,
// is generated from both, so a record's function number is an index of Table.
package function

//go:generate go run ./gendef -o ../../../../payload/src/kinds/calls/functions.def

import (
	_ "embed"
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Function describes one function.
type Function struct {
	Kind       ring.Kind
	Name       string
	Result     Type
	Parameters []Parameter
	Variadic   bool
	When       When
	Out        int // parameter that points to what a successful call has written; -1: none
	OutBytes   int // 4 or 8
	Stream     int // parameter that is the stream of the call; -1: none
	Bytes      int // parameter that is the number of bytes to copy, fill or allocate; -1: none
	StackWords int // 8-byte words of arguments on the stack; a record holds the first of them only

	enums map[string]Enum
	types map[string]Struct
}

// Parameter is one parameter of a function.
type Parameter struct {
	Name  string // the header's, or arg0, arg1, ...
	Type  Type
	Place Place
}

// Type is the type of a parameter, a result or a member.
type Type struct {
	Class Class
	Size  int    // bytes
	Tag   string // Enumeration and Structure: the key of its values or members
	Text  string // as the header writes it
}

// Class says how a value is to be read.
type Class byte

// The classes; each value is the letter in functions.txt.
const (
	Void        Class = 'v'
	Pointer     Class = 'p'
	Signed      Class = 'i'
	Unsigned    Class = 'u'
	Boolean     Class = 'b'
	Floating    Class = 'f'
	Enumeration Class = 'e'
	Structure   Class = 's'
	Opaque      Class = 'o' // a member that is not shown: an array, a union
)

// Place is where the x86-64 ABI puts an argument: Words neighbours from First on.
type Place struct {
	In           Area
	First, Words int
}

// Area is a sequence of places for arguments.
type Area byte

// The areas; each value is the letter in functions.txt.
const (
	Registers Area = 'r' // rdi, rsi, rdx, rcx, r8, r9
	Vectors   Area = 'x' // xmm0 to xmm7: not recorded
	Stack     Area = 's' // 8-byte words above the return address
)

// Enum has the names of an enumeration's values; values are kept as their low 32 bits.
type Enum map[uint32]string

// Struct is the layout of a structure that is passed by value.
type Struct []Member

// Member is a member of a structure.
type Member struct {
	Name   string
	Type   Type
	Offset int
}

// Facts is what the headers say: the content of functions.txt.
type Facts struct {
	Functions []Function // by kind, then by name
	Enums     map[string]Enum
	Structs   map[string]Struct
}

//go:embed functions.txt
var text string

var facts = sync.OnceValue(func() *Facts {
	f, err := Parse(text)
	if err != nil {
		panic(err) // the test parses the same text
	}
	return f
})

var rows = sync.OnceValue(func() map[string]int {
	rows := make(map[string]int)
	for i := range facts().Functions {
		rows[facts().Functions[i].Name] = i
	}
	return rows
})

// Table returns all functions; the index is the function number of the records, which is the row
// of functions.def. The caller must not change it.
func Table() []Function { return facts().Functions }

// Named returns the index in Table of a function.
func Named(name string) (row int, known bool) {
	row, known = rows()[name]
	return row, known
}
