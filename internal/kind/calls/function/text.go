package function

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

var errText = errors.New("malformed")

const textHeader = `# Functions of HIP, HSA and RCCL, from the public headers of several releases by scripts/callfunctions.
# Fields are separated by tabs. A type is its class, its size in bytes, its tag and the header's text.
#
#   KIND   name  result  place type parameter ...    the last parameter is ... if the function is variadic
#   enum   tag   value=name ...
#   struct tag   offset type member ...
#
# Class: v void, p pointer, i signed, u unsigned, b bool, f float, e enum, s struct, o not shown.
# Place: r0 rdi to r5 r9, x0 xmm0 to x7, s0 the first word on the stack; +2: two of them.
`

// Parse reads the text of functions.txt.
func Parse(text string) (*Facts, error) {
	f := &Facts{Enums: make(map[string]Enum), Structs: make(map[string]Struct)}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if err := f.parseLine(strings.Split(line, "\t")); err != nil {
			return nil, fmt.Errorf("functions.txt:%d: %w", number, err)
		}
	}
	for i := range f.Functions {
		f.Functions[i].enums, f.Functions[i].types = f.Enums, f.Structs
	}
	return f, nil
}

func (f *Facts) parseLine(fields []string) error {
	if len(fields) < 3 {
		return fmt.Errorf("%w: %d fields", errText, len(fields))
	}
	switch fields[0] {
	case "enum":
		values, err := parseEnum(fields[2:])
		f.Enums[fields[1]] = values
		return err
	case "struct":
		members, err := parseStruct(fields[2:])
		f.Structs[fields[1]] = members
		return err
	}
	fn, err := parseFunction(fields)
	f.Functions = append(f.Functions, fn)
	return err
}

func parseEnum(fields []string) (Enum, error) {
	e := make(Enum)
	for _, field := range fields {
		number, name, _ := strings.Cut(field, "=")
		v, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, err
		}
		e[uint32(v)] = name
	}
	return e, nil
}

func parseStruct(fields []string) (Struct, error) {
	var s Struct
	for _, field := range fields {
		number, rest, _ := strings.Cut(field, " ")
		offset, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		name, t, err := parseVariable(rest)
		if err != nil {
			return nil, err
		}
		s = append(s, Member{Name: name, Type: t, Offset: offset})
	}
	return s, nil
}

func parseFunction(fields []string) (Function, error) {
	kind, known := ring.KindNamed(strings.ToLower(strings.ReplaceAll(fields[0], "_", "-")))
	if !known {
		return Function{}, fmt.Errorf("%w: kind %s", errText, fields[0])
	}
	fn := Function{Kind: kind, Name: fields[1]}
	var err error
	if _, fn.Result, err = parseVariable("- " + fields[2]); err != nil {
		return fn, err
	}
	for _, field := range fields[3:] {
		if field == "..." {
			fn.Variadic = true
			continue
		}
		p, err := parseParameter(field)
		if err != nil {
			return fn, err
		}
		fn.Parameters = append(fn.Parameters, p)
	}
	fn.derive()
	return fn, nil
}

// derive fills in what follows from the facts.
func (f *Function) derive() {
	f.StackWords = 0
	for _, p := range f.Parameters {
		if p.Place.In == Stack {
			f.StackWords = max(f.StackWords, p.Place.First+p.Place.Words)
		}
	}
	f.applyRules()
}

func parseParameter(field string) (p Parameter, err error) {
	place, rest, _ := strings.Cut(field, " ")
	if p.Place, err = parsePlace(place); err != nil {
		return p, err
	}
	p.Name, p.Type, err = parseVariable(rest)
	return p, err
}

func parsePlace(text string) (Place, error) {
	if text == "" || !strings.Contains("rxs", text[:1]) {
		return Place{}, fmt.Errorf("%w: place %q", errText, text)
	}
	p := Place{In: Area(text[0]), Words: 1}
	first, words, several := strings.Cut(text[1:], "+")
	var err error
	if p.First, err = strconv.Atoi(first); err == nil && several {
		p.Words, err = strconv.Atoi(words)
	}
	return p, err
}

// parseVariable reads "name class+size[:tag] text".
func parseVariable(text string) (name string, t Type, err error) {
	part := strings.SplitN(text, " ", 3)
	if len(part) != 3 || part[1] == "" {
		return "", t, fmt.Errorf("%w: %q", errText, text)
	}
	size, tag, _ := strings.Cut(part[1][1:], ":")
	t = Type{Class: Class(part[1][0]), Tag: tag, Text: part[2]}
	t.Size, err = strconv.Atoi(size)
	return part[0], t, err
}

// Format writes functions.txt.
func (f *Facts) Format() []byte {
	var b bytes.Buffer
	b.WriteString(textHeader)
	slices.SortFunc(f.Functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	for i := range f.Functions {
		formatFunction(&b, &f.Functions[i])
	}
	for _, tag := range slices.Sorted(maps.Keys(f.Structs)) {
		fmt.Fprintf(&b, "struct\t%s", tag)
		for _, m := range f.Structs[tag] {
			fmt.Fprintf(&b, "\t%d %s %s", m.Offset, m.Name, m.Type)
		}
		b.WriteByte('\n')
	}
	for _, tag := range slices.Sorted(maps.Keys(f.Enums)) {
		fmt.Fprintf(&b, "enum\t%s", tag)
		for _, v := range slices.Sorted(maps.Keys(f.Enums[tag])) {
			fmt.Fprintf(&b, "\t%d=%s", v, f.Enums[tag][v])
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func formatFunction(b *bytes.Buffer, f *Function) {
	fmt.Fprintf(b, "%s\t%s\t%s", KindID(f.Kind), f.Name, f.Result)
	for _, p := range f.Parameters {
		fmt.Fprintf(b, "\t%s %s %s", p.Place, p.Name, p.Type)
	}
	if f.Variadic {
		b.WriteString("\t...")
	}
	b.WriteByte('\n')
}

// String returns the type as functions.txt has it.
func (t Type) String() string {
	s := string(t.Class) + strconv.Itoa(t.Size)
	if t.Tag != "" {
		s += ":" + t.Tag
	}
	return s + " " + t.Text
}

// String returns the place as functions.txt has it.
func (p Place) String() string {
	s := string(p.In) + strconv.Itoa(p.First)
	if p.Words > 1 {
		s += "+" + strconv.Itoa(p.Words)
	}
	return s
}

// KindID returns the kind's ID in kinds.def.
func KindID(k ring.Kind) string {
	return strings.ToUpper(strings.ReplaceAll(k.String(), "-", "_"))
}
