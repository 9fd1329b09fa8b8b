package tracedb

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// kindSchemas are the tables and views of the kinds of record.
var kindSchemas []string

// AddSchema adds the tables and views of a kind of record to every trace that this process
// writes or reads. Init functions call it. A kind's tables are named rtl_*; each has
// columns that refer to its session and threads (schema.sql).
func AddSchema(sql string) { kindSchemas = append(kindSchemas, sql) }

// layout returns the SQL of all tables and views of a trace.
func layout() string {
	return schema + filterSchema + triggerSchema + viewSchema + periodSchema + rateSchema + strings.Join(kindSchemas, "\n")
}

// Table names a kind's table of integers and the columns that its rows fill.
type Table struct {
	Name    string
	Columns []string

	// Words is a further column, a blob of up to MostWords words of 64 bits, each with its most
	// significant byte first, as hex() shows numbers; "": none.
	Words     string
	MostWords int
}

// KindWriter writes the rows that one kind of record adds to a session. It is valid during
// the call that receives it.
type KindWriter interface {
	// Thread returns the row of a thread of the target; Null for tid 0 (not known).
	Thread(tid uint32) (row int64, err error)
	// Agent returns the row of an agent by the session's id for it; Null for 0 (the host).
	Agent(id uint32) (row int64, err error)
	// String returns the row of a text in rocpd_string.
	String(text string) (row int64, err error)
	// Add adds a row, a value for each column. Null is NULL.
	Add(table *Table, values ...int64) error
	// AddWords adds a row of a table with words.
	AddWords(table *Table, words []uint64, values ...int64) error
	// Define adds one row at once, and returns its id: other rows refer to it.
	Define(table *Table, values ...int64) (row int64, err error)
	// Update replaces the values of a row of this session, by its id.
	Update(table *Table, row int64, values ...int64) error
}

// Kind calls write with the writer of this session, inside the open transaction. records
// is how many records write adds.
func (s *Session) Kind(records int, write func(KindWriter) error) error {
	return s.write(records, func() error { return write(kindWriter{s}) })
}

// Rows is Kind for rows that no record of the ring has brought: if they cannot be written, no record is missing.
func (s *Session) Rows(rows int, write func(KindWriter) error) error {
	return s.writeRows(0, rows, func() error { return write(kindWriter{s}) })
}

type kindWriter struct{ *Session }

func (w kindWriter) Thread(tid uint32) (int64, error) { return w.thread(tid) }

func (w kindWriter) Agent(id uint32) (int64, error) {
	if id == 0 {
		return null, nil
	}
	return w.agent(id)
}

func (w kindWriter) String(text string) (int64, error) { return w.db.intern(text) }

func (w kindWriter) Add(table *Table, values ...int64) error {
	b, err := w.begin(table, values)
	if err != nil {
		return err
	}
	if b.add(values...) {
		return b.flush()
	}
	return nil
}

func (w kindWriter) AddWords(table *Table, words []uint64, values ...int64) error {
	if len(words) > table.MostWords {
		return fmt.Errorf("%s: %d words, at most %d", table.Name, len(words), table.MostWords)
	}
	b, err := w.begin(table, values)
	if err != nil {
		return err
	}
	b.add(values...)
	if b.addWords(words) {
		return b.flush()
	}
	return nil
}

// begin begins a row of a table with this many values.
func (w kindWriter) begin(table *Table, values []int64) (*bulk, error) {
	if len(values) != len(table.Columns) {
		return nil, fmt.Errorf("%s: %d values for %d columns", table.Name, len(values), len(table.Columns))
	}
	b, err := w.db.bulkOf(table)
	if err == nil {
		b.values = append(b.values, w.id)
	}
	return b, err
}

func (w kindWriter) Define(table *Table, values ...int64) (int64, error) {
	args := append([]any{w.id}, orNULLs(values)...)
	return w.db.insert(fmt.Sprintf("INSERT INTO %s(session_id, %s) VALUES(?%s)",
		table.Name, strings.Join(table.Columns, ", "), strings.Repeat(", ?", len(values))), args...)
}

func (w kindWriter) Update(table *Table, row int64, values ...int64) error {
	if len(values) != len(table.Columns) {
		return fmt.Errorf("%s: %d values for %d columns", table.Name, len(values), len(table.Columns))
	}
	for t, b := range w.db.tables { // the row may not be in the file yet
		if t.Name == table.Name {
			if err := b.flush(); err != nil {
				return err
			}
		}
	}
	return w.db.exec(fmt.Sprintf("UPDATE %s SET %s = ? WHERE id = ? AND session_id = ?", table.Name, strings.Join(table.Columns, " = ?, ")),
		append(orNULLs(values), row, w.id)...)
}

// orNULLs returns values as SQL has them.
func orNULLs(values []int64) []any {
	args := make([]any, len(values))
	for i, v := range values {
		if v != null {
			args[i] = v
		}
	}
	return args
}

// bulkOf returns the buffered rows of a table.
func (db *DB) bulkOf(table *Table) (b *bulk, err error) {
	if b := db.tables[table]; b != nil {
		return b, nil
	}
	if err := db.showCalls(table.Name); err != nil {
		return nil, err
	}
	columns := append([]string{"session_id"}, table.Columns...)
	if table.Words == "" {
		b, err = newBulk(db.conn, table.Name, columns...)
	} else {
		b, err = newBulkWithWords(db.conn, table.Name, columns, table.Words, table.MostWords)
	}
	if err == nil {
		db.tables[table] = b
	}
	return b, err
}

func (db *DB) flushKinds() error {
	var errs []error
	for _, b := range db.kindBulks() {
		errs = append(errs, b.flush())
	}
	return errors.Join(errs...)
}

// kindBulks returns the bulks of all kinds, sorted by table name.
func (db *DB) kindBulks() []*bulk {
	var all []*bulk
	for _, t := range slices.SortedFunc(maps.Keys(db.tables), func(a, b *Table) int { return strings.Compare(a.Name, b.Name) }) {
		all = append(all, db.tables[t])
	}
	return all
}

// HasTables reports whether a trace has all of the named tables. A trace of an older
// version lacks the tables of newer kinds.
func HasTables(db *sql.DB, names ...string) (bool, error) {
	for _, name := range names {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name = ?", name).Scan(&n); err != nil {
			return false, err
		}
		if n == 0 {
			return false, nil
		}
	}
	return true, nil
}
