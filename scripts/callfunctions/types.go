package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
)

// types is what is known of the types by their text in the header.
type types struct {
	headers  *headers
	declared *declared
	known    map[string]function.Type
}

// measure asks the compiler for the types' sizes and classes.
func (t *types) measure(texts []string) error {
	texts = slices.Compact(slices.Sorted(slices.Values(texts)))
	texts = slices.DeleteFunc(texts, func(text string) bool {
		simple, is := simpleType(text)
		if is {
			t.known[text] = simple
		}
		return is
	})
	questions := []string{
		"sizeof(T%d)", "std::is_pointer_v<T%d>", "std::is_same_v<T%d, bool>", "std::is_floating_point_v<T%d>",
		"std::is_enum_v<T%d>", "std::is_class_v<T%d>", "std::is_union_v<T%d>", "std::is_signed_v<T%d>",
	}
	answers, err := t.ask(texts, questions)
	if err != nil {
		return err
	}
	for i, text := range texts {
		t.known[text] = t.classify(text, answers[i*len(questions):])
	}
	return nil
}

func simpleType(text string) (function.Type, bool) {
	switch {
	case strings.ContainsAny(text, "*[&"):
		return function.Type{Class: function.Pointer, Size: 8, Text: text}, true
	case text == "void":
		return function.Type{Class: function.Void, Text: text}, true
	}
	return function.Type{}, false
}

func (t *types) classify(text string, answers []int64) function.Type {
	of := function.Type{Class: function.Unsigned, Size: int(answers[0]), Text: text}
	for i, class := range []function.Class{
		function.Pointer, function.Boolean, function.Floating, function.Enumeration,
		function.Structure, function.Opaque, function.Signed,
	} {
		if answers[1+i] != 0 {
			of.Class = class
			break
		}
	}
	if of.Class == function.Enumeration || of.Class == function.Structure {
		of.Tag = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(text, "const "), "enum "), "struct ")
	}
	return of
}

// ask returns the values of each question about each type. T%d is the type.
func (t *types) ask(texts, questions []string) ([]int64, error) {
	var b strings.Builder
	b.WriteString("#include <type_traits>\n" + t.headers.program)
	for i, text := range texts {
		fmt.Fprintf(&b, "typedef %s T%d;\n", text, i)
	}
	b.WriteString("enum rtl_answers : long long {\n")
	for i := range texts {
		for _, q := range questions {
			fmt.Fprintf(&b, "rtl_%d_%d = (long long)(%s),\n", i, b.Len(), fmt.Sprintf(q, i))
		}
	}
	b.WriteString("};\n")
	var enum node
	if err := t.headers.parse(b.String(), "rtl_answers", &enum); err != nil {
		return nil, err
	}
	var values []int64
	for _, c := range constantsOf(enum) {
		v, _ := constant(c.Inner)
		values = append(values, v)
	}
	if len(values) != len(texts)*len(questions) {
		return nil, errors.New("clang has not answered all questions")
	}
	return values, nil
}

// structs adds the layouts of the structures that are passed by value.
func (t *types) structs(f *function.Facts) error {
	for _, of := range t.known {
		if of.Class != function.Structure || f.Structs[of.Tag] != nil {
			continue
		}
		members, err := t.members(of)
		if err != nil {
			return fmt.Errorf("%s: %w", of.Tag, err)
		}
		f.Structs[of.Tag] = members
	}
	return nil
}

func (t *types) members(of function.Type) (function.Struct, error) {
	var s function.Struct
	record := t.declared.records[of.Tag]
	fields := slices.DeleteFunc(slices.Clone(record.Inner), func(n node) bool { return n.Kind != "FieldDecl" || n.Name == "" })
	if len(fields) == 0 {
		return function.Struct{{Name: "-", Type: function.Type{Class: function.Opaque, Size: of.Size, Text: of.Text}}}, nil
	}
	names := make([]string, len(fields))
	var questions []string
	for i, n := range fields {
		names[i] = n.Type.Qual
		questions = append(questions, fmt.Sprintf("__builtin_offsetof(T%%d, %s)", n.Name), fmt.Sprintf("sizeof(T%%d::%s)", n.Name))
	}
	answers, err := t.ask([]string{of.Text}, questions)
	if err != nil {
		return nil, err
	}
	member := &types{headers: t.headers, declared: t.declared, known: make(map[string]function.Type)}
	if err := member.measure(names); err != nil {
		return nil, err
	}
	for i, n := range fields {
		s = append(s, function.Member{Name: n.Name, Offset: int(answers[2*i]), Type: memberType(member.known[n.Type.Qual], int(answers[2*i+1]))})
	}
	for tag, v := range member.known {
		if v.Class == function.Enumeration {
			t.known[tag] = v
		}
	}
	return s, nil
}

// memberType returns the type of a member; arrays, unions and structures in it are not shown.
func memberType(of function.Type, size int) function.Type {
	if strings.Contains(of.Text, "[") || of.Class == function.Structure {
		return function.Type{Class: function.Opaque, Size: size, Text: of.Text}
	}
	return of
}

// places are the places that arguments have taken.
type places struct{ registers, vectors, words int }

// take returns the place of the next argument: the x86-64 psABI, 3.2.3. Structures here hold integers and
// pointers only, and none is aligned to more than 8 bytes.
func (p *places) take(of function.Type) (function.Place, error) {
	words := (of.Size + 7) / 8
	switch {
	case words == 0:
		return function.Place{}, fmt.Errorf("%s: no size", of.Text)
	case of.Class == function.Opaque:
		return function.Place{}, fmt.Errorf("%s: by value", of.Text)
	case of.Class == function.Floating && of.Size > 8:
		return function.Place{}, fmt.Errorf("%s: by value", of.Text)
	case of.Class == function.Floating && p.vectors < 8:
		p.vectors++
		return function.Place{In: function.Vectors, First: p.vectors - 1, Words: 1}, nil
	case of.Class != function.Floating && words <= 2 && p.registers+words <= 6:
		p.registers += words
		return function.Place{In: function.Registers, First: p.registers - words, Words: words}, nil
	}
	p.words += words
	return function.Place{In: function.Stack, First: p.words - words, Words: words}, nil
}
