package calls

import (
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var (
	functionTable = tracedb.Table{Name: "rtl_function", Columns: []string{"api_id", "name_id", "has_status", "stream_word", "default_stream"}}
	callTable     = tracedb.Table{
		Name: "rtl_call", Columns: []string{"thread_id", "function_id", "start_ns", "duration_ns", "result", "flags"},
		Words: "arguments", MostWords: registers + stackWords,
	}
	coverageTable = tracedb.Table{Name: "rtl_call_coverage", Columns: []string{
		"api_id", "way", "functions", "hooked", "excluded", "omitted", "unknown", "modules", "entries", "dropped",
	}}
)

// store writes the calls of one session and kind.
type store struct {
	id    ring.Kind
	known []known // by the functions' numbers
	words [registers + stackWords]uint64
}

// known is what a store needs of each function.
type known struct {
	*function.Function
	registers int   // that have arguments
	row       int64 // of rtl_function; 0: none yet
}

func newStore(id ring.Kind) store {
	table := function.Table()
	s := store{id: id, known: make([]known, len(table))}
	for i := range table {
		s.known[i] = known{Function: &table[i], registers: registersIn(&table[i])}
	}
	return s
}

// Store writes calls of one kind into a session.
func Store(w tracedb.KindWriter, id ring.Kind, batch []Call) error {
	s := newStore(id)
	return s.calls(w, batch)
}

func (s *store) calls(w tracedb.KindWriter, batch []Call) error {
	var row [6]int64
	for i := range batch {
		c := &batch[i]
		f := &s.known[c.Function]
		if err := s.define(w, f); err != nil {
			return err
		}
		thread, err := w.Thread(c.TID)
		if err != nil {
			return err
		}
		row = [...]int64{thread, f.row, int64(c.StartNS), int64(c.EndNS - c.StartNS), result(f.Function, c.Result), int64(c.Flags)}
		if err := w.AddWords(&callTable, s.arguments(f, c), row[:]...); err != nil {
			return err
		}
	}
	return nil
}

// define inserts the row of a function at its first call.
func (s *store) define(w tracedb.KindWriter, f *known) error {
	if f.row != 0 {
		return nil
	}
	api, err := w.String(s.id.String())
	if err != nil {
		return err
	}
	name, err := w.String(f.Name)
	if err != nil {
		return err
	}
	word, handle := streamOf(f.Function)
	f.row, err = w.Define(&functionTable, api, name, hasStatus(f.Function), word, handle)
	return err
}

// arguments returns the words that have arguments.
func (s *store) arguments(f *known, c *Call) []uint64 {
	if c.StackWords == 0 {
		return append(s.words[:0], c.Registers[:f.registers]...)
	}
	return append(append(s.words[:0], c.Registers[:]...), c.Stack[:c.StackWords]...)
}

// registersIn returns how many integer registers have arguments of a function.
func registersIn(f *function.Function) (n int) {
	for _, p := range f.Parameters {
		if p.Place.In == function.Registers {
			n = max(n, p.Place.First+p.Place.Words)
		}
	}
	return min(n, registers)
}

func (s *store) cover(w tracedb.KindWriter, c *Coverage) error {
	api, err := w.String(s.id.String())
	if err != nil {
		return err
	}
	_, err = w.Define(&coverageTable, api, int64(c.Way), int64(c.Functions), int64(c.Hooked), int64(c.Excluded), int64(c.Omitted),
		int64(c.Unknown), int64(c.Modules), int64(c.Entries), int64(c.Dropped)) // more columns than Add's rows have
	return err
}
