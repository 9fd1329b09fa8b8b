package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
)

// added are the constants that an extension adds to an enumeration of the core: anonymous
// enumerations by the constants' prefix, others by their tag.
var added = map[string]string{
	"HSA_STATUS_": "hsa_status_t", "hsa_amd_agent_info_s": "hsa_agent_info_t",
	"hsa_amd_region_info_s": "hsa_region_info_t",
}

// declared is what the headers declare.
type declared struct {
	wanted    *regexp.Regexp
	functions map[string]node
	records   map[string]node // by tag, or by the name that a typedef gives to the nameless
	enums     map[string]node
	byID      map[string]node
	loose     []node // nameless enumerations
}

func (h *headers) declared() *declared {
	d := &declared{
		wanted: h.wanted, functions: make(map[string]node), records: make(map[string]node),
		enums: make(map[string]node), byID: make(map[string]node),
	}
	d.walk(h.top.Inner)
	return d
}

func (d *declared) walk(nodes []node) {
	for _, n := range nodes {
		switch n.Kind {
		case "LinkageSpecDecl":
			d.walk(n.Inner)
		case "NamespaceDecl":
			if n.Name == "rtl_table" {
				d.walk(n.Inner)
			}
		case "FunctionDecl":
			d.function(n)
		case "CXXRecordDecl", "EnumDecl":
			d.tagged(n)
		case "TypedefDecl":
			d.alias(n)
		}
	}
}

// function notes a function that the library exports: as the header declares it, or as the table does if
// the header has no C function of the name, or one with another number of parameters (6.4 has such a mistake).
func (d *declared) function(n node) {
	name, ofTable := strings.CutPrefix(n.Name, "t_")
	if !d.wanted.MatchString(name) || n.Inline || n.Storage == "static" {
		return
	}
	old, known := d.functions[name]
	better := !ofTable && n.Mangled == n.Name && old.Mangled != old.Name
	if known && ofTable {
		better = len(parametersOf(old)) != len(parametersOf(n))
	}
	if !known || better {
		n.Name = name
		d.functions[name] = n
	}
}

func (d *declared) tagged(n node) {
	if len(n.Inner) == 0 {
		return
	}
	d.byID[n.ID] = n
	switch {
	case n.Name == "" && n.Kind == "EnumDecl":
		d.loose = append(d.loose, n)
	case n.Kind == "EnumDecl":
		d.enums[n.Name] = n
	case n.Name != "":
		d.records[n.Name] = n
	}
}

func (d *declared) alias(n node) {
	if len(n.Inner) == 0 || n.Inner[0].Of == nil {
		return
	}
	of, known := d.byID[n.Inner[0].Of.ID]
	switch {
	case !known:
	case of.Kind == "EnumDecl":
		d.enums[n.Name] = of
	default:
		d.records[n.Name] = of
	}
}

// facts returns the functions with all that is needed to read their arguments.
func (h *headers) facts() (*function.Facts, error) {
	d := h.declared()
	t := &types{headers: h, declared: d, known: make(map[string]function.Type)}
	f := &function.Facts{Enums: make(map[string]function.Enum), Structs: make(map[string]function.Struct)}
	if err := t.measure(typesOf(d)); err != nil {
		return nil, err
	}
	if err := t.structs(f); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(d.functions)) {
		fn, err := t.function(d.functions[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.Functions = append(f.Functions, fn)
	}
	t.enums(f)
	return f, nil
}

func typesOf(d *declared) []string {
	var all []string
	for _, n := range d.functions {
		all = append(all, resultOf(n))
		for _, p := range parametersOf(n) {
			all = append(all, p.Type.Qual)
		}
	}
	return all
}

func parametersOf(n node) []node {
	return slices.DeleteFunc(slices.Clone(n.Inner), func(p node) bool { return p.Kind != "ParmVarDecl" })
}

func resultOf(n node) string {
	result, _, _ := strings.Cut(n.Type.Qual, "(")
	return strings.TrimSpace(result)
}

func (t *types) function(n node) (function.Function, error) {
	fn := function.Function{Kind: function.KindOf(n.Name), Name: n.Name, Variadic: n.Variadic, Result: t.known[resultOf(n)]}
	var next places
	if fn.Result.Class == function.Structure && fn.Result.Size > 16 {
		next.registers++ // the address of the result comes first
	}
	for i, p := range parametersOf(n) {
		of := t.known[p.Type.Qual]
		place, err := next.take(of)
		if err != nil {
			return fn, err
		}
		name := p.Name
		if name == "" {
			name = "arg" + strconv.Itoa(i)
		}
		fn.Parameters = append(fn.Parameters, function.Parameter{Name: name, Type: of, Place: place})
	}
	return fn, nil
}

func (t *types) enums(f *function.Facts) {
	for _, of := range t.known {
		if of.Class == function.Enumeration {
			f.Enums[of.Tag] = t.values(of.Tag)
		}
	}
}

func (t *types) values(tag string) function.Enum {
	values := make(function.Enum)
	addValues(values, t.declared.enums[tag])
	for from, to := range added {
		if to != tag {
			continue
		}
		addValues(values, t.declared.enums[from])
		for _, n := range t.declared.loose {
			if constants := constantsOf(n); len(constants) > 0 && strings.HasPrefix(constants[0].Name, from) {
				addValues(values, n)
			}
		}
	}
	return values
}

func constantsOf(n node) []node {
	return slices.DeleteFunc(slices.Clone(n.Inner), func(c node) bool { return c.Kind != "EnumConstantDecl" })
}

// addValues adds the constants; the first name of a value stays.
func addValues(values function.Enum, n node) {
	next := int64(0)
	for _, c := range constantsOf(n) {
		if v, is := constant(c.Inner); is {
			next = v
		}
		if _, known := values[uint32(next)]; !known {
			values[uint32(next)] = c.Name
		}
		next++
	}
}

// constant returns the value that the compiler has found for the first expression.
func constant(nodes []node) (int64, bool) {
	for _, n := range nodes {
		if text, is := n.Value.(string); is && n.Kind == "ConstantExpr" {
			v, err := strconv.ParseInt(text, 10, 64)
			return v, err == nil
		}
		if v, is := constant(n.Inner); is {
			return v, true
		}
	}
	return 0, false
}
