// Package avail tells what this version of the tool can record, and what it can record of a running
// process, without stopping it.
package avail

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Catalogue is what this version can record. Its JSON form is stable (docs/json.md).
type Catalogue struct {
	Version  string    `json:"version"`
	Kinds    []Kind    `json:"kinds"`
	Sets     []Set     `json:"sets"`
	Modes    []Set     `json:"modes"`
	Settings []Setting `json:"settings"`
}

// Kind is a kind of record in addition to kernel dispatches.
type Kind struct {
	Name      string     `json:"name"`
	Flag      string     `json:"flag"`
	Records   string     `json:"records"` // what one record is
	Tables    []string   `json:"tables"`
	Views     []View     `json:"views"`         // that show the kind's tables
	ReportCSV []string   `json:"report_csv"`    // tables of report --csv
	Export    string     `json:"export_format"` // of export --format; "": none of its own
	JSONArray string     `json:"rocprofv3_array"`
	Functions []Function `json:"functions"` // of an API
}

// View is a view of a trace.
type View struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
}

// Function is a function of an API.
type Function struct {
	Kind      string     `json:"kind"`
	Name      string     `json:"name"`
	Result    string     `json:"result"`
	Arguments []Argument `json:"arguments"`
	Recorded  string     `json:"recorded"` // always, on-request or never
}

// Argument is an argument of a function.
type Argument struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Values of Function.Recorded.
const (
	Always    = "always"     // with the flag of its kind
	OnRequest = "on-request" // if --operations names it; HSA's signal functions also by --hsa-signal-trace
	Never     = "never"      // intercepting it would do harm
)

// Set is several kinds that one flag, or one mode, turns on.
type Set struct {
	Name  string   `json:"name"`
	Short string   `json:"short,omitempty"`
	Kinds []string `json:"kinds"`
}

// Setting is a setting of the payload (--set).
type Setting struct {
	Name    string `json:"name"`
	Values  string `json:"values"`
	Default string `json:"default"`
	About   string `json:"about"`
}

// List returns the catalogue of this version.
func List(version string) (*Catalogue, error) {
	views, err := tracedb.Views()
	if err != nil {
		return nil, err
	}
	c := &Catalogue{Version: version}
	for _, k := range all.Kinds {
		c.Kinds = append(c.Kinds, describe(k, views))
	}
	for _, s := range all.Sets {
		c.Sets = append(c.Sets, Set{s.Flag, s.Shorthand, names(s.Kinds)})
	}
	for _, m := range all.Modes {
		c.Modes = append(c.Modes, Set{Name: m.Name, Kinds: names(m.Kinds)})
	}
	c.Settings = settings()
	return c, nil
}

func names(kinds []*kind.Kind) []string {
	list := []string{}
	for _, k := range kinds {
		list = append(list, k.ID.String())
	}
	return list
}

func describe(k *kind.Kind, views []tracedb.View) Kind {
	d := Kind{
		Name: k.ID.String(), Flag: k.Flag, Records: k.Thing, Tables: slices.Clone(k.Tables), Views: []View{},
		ReportCSV: []string{}, JSONArray: k.Export.Array, Functions: []Function{},
	}
	for _, v := range views {
		if shows(v, k.Tables) {
			d.Views = append(d.Views, View{v.Name, v.Columns})
		}
	}
	for _, t := range k.CSV {
		d.ReportCSV = append(d.ReportCSV, t.Name)
	}
	if k.Export.CSV != nil {
		d.Export = k.Export.CSV.Format
	}
	for i := range function.Table() {
		if f := &function.Table()[i]; f.Kind == k.ID {
			d.Functions = append(d.Functions, describeFunction(f))
		}
	}
	return d
}

var word = regexp.MustCompile(`\w+`)

// shows reports whether a view reads one of the tables.
func shows(v tracedb.View, tables []string) bool {
	return slices.ContainsFunc(word.FindAllString(v.SQL, -1), func(w string) bool { return slices.Contains(tables, w) })
}

func describeFunction(f *function.Function) Function {
	d := Function{
		Kind: f.Kind.String(), Name: f.Name, Result: f.Result.Text, Arguments: []Argument{},
		Recorded: map[function.When]string{function.Always: Always, function.OnRequest: OnRequest, function.Never: Never}[f.When],
	}
	for _, p := range f.Parameters {
		d.Arguments = append(d.Arguments, Argument{p.Name, p.Type.Text})
	}
	if f.Variadic {
		d.Arguments = append(d.Arguments, Argument{"...", ""})
	}
	return d
}

// Prototype returns the function as a header declares it.
func (f *Function) Prototype() string {
	var b strings.Builder
	b.WriteString(f.Result + " " + f.Name + "(")
	for i, a := range f.Arguments {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strings.TrimSpace(a.Type + " " + a.Name))
	}
	return b.String() + ")"
}

// KindNamed returns a kind by its name or its flag.
func (c *Catalogue) KindNamed(name string) (*Kind, bool) {
	name = strings.TrimPrefix(name, "--")
	i := slices.IndexFunc(c.Kinds, func(k Kind) bool { return k.Name == name || k.Flag == name })
	if i < 0 {
		return nil, false
	}
	return &c.Kinds[i], true
}

// Matching returns the functions of all kinds whose name matches a pattern of path.Match.
func (c *Catalogue) Matching(pattern string) ([]Function, error) {
	matching, err := function.Matching(pattern)
	found := []Function{}
	for i, in := range matching {
		if in {
			found = append(found, describeFunction(&function.Table()[i]))
		}
	}
	return found, err
}

func settings() (list []Setting) {
	for _, k := range envbuf.Keys {
		if k.TestOnly {
			continue
		}
		s := Setting{Name: k.Name, About: k.Doc}
		switch k.Kind {
		case envbuf.Number:
			s.Values = strconv.FormatUint(k.Min, 10) + " to " + strconv.FormatUint(k.Max, 10)
			s.Default = strconv.FormatUint(k.Default, 10)
			if k.PowerOfTwo {
				s.Values += ", a power of two"
			}
		case envbuf.Choice:
			s.Values, s.Default = strings.Join(k.Choices, ", "), k.Choices[k.Default]
		case envbuf.Set:
			s.Values = "kinds, with commas"
		case envbuf.Text:
			s.Values = "text"
		}
		list = append(list, s)
	}
	return list
}
