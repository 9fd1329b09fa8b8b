package report

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// ErrQuery means that SQLite refused the user's query.
var ErrQuery = errors.New("query refused")

// Form is an output format for the rows of a query.
type Form int

const (
	Tabs Form = iota // columns separated by tabs
	CSV
	JSON // an object: columns, and rows as arrays
)

// Query runs a user's query and writes its rows.
func Query(ctx context.Context, w io.Writer, path, query string, form Form) error {
	db, err := tracedb.Open(path)
	if err != nil {
		return traceread.Explain(err)
	}
	defer db.Close()
	rows, release, err := tracedb.Ask(ctx, db, query)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrQuery, err)
	}
	defer release()
	defer rows.Close()
	out := bufio.NewWriter(w)
	if err := writeRows(out, rows, form); err != nil {
		return errors.Join(err, out.Flush())
	}
	return out.Flush()
}

// rowWriter writes the names of the columns, and then rows.
type rowWriter interface {
	begin(columns []string) error
	row(values []any) error
	end() error
}

func writeRows(w *bufio.Writer, rows *sql.Rows, form Form) error {
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	writer := map[Form]rowWriter{Tabs: tabs{w}, CSV: commas{csv.NewWriter(w)}, JSON: &object{w: w}}[form]
	if err := writer.begin(columns); err != nil {
		return err
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := writer.row(values); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrQuery, err)
	}
	return writer.end()
}

type tabs struct{ w *bufio.Writer }

func (t tabs) begin(columns []string) error {
	values := make([]any, len(columns))
	for i, c := range columns {
		values[i] = c
	}
	return t.row(values)
}

func (t tabs) row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case []byte:
			cells[i] = fmt.Sprintf("x'%x'", v)
		default:
			cells[i] = sanitize.Text(fmt.Sprint(v))
		}
	}
	_, err := fmt.Fprintln(t.w, strings.Join(cells, "\t"))
	return err
}

func (tabs) end() error { return nil }

type commas struct{ w *csv.Writer }

func (c commas) begin(columns []string) error {
	cells := make([]string, len(columns))
	for i, name := range columns {
		cells[i] = sanitize.Cell(name)
	}
	return c.w.Write(cells)
}

func (c commas) row(values []any) error { return c.w.Write(csvCells(values)) }

func (c commas) end() error {
	c.w.Flush()
	return c.w.Error()
}

// object writes {"columns": [...], "rows": [[...], ...]}: columns may have equal names.
type object struct {
	w    *bufio.Writer
	some bool
}

func (o *object) begin(columns []string) error {
	text, err := sanitize.JSON(columns)
	if err == nil {
		_, err = fmt.Fprintf(o.w, "{\"columns\": %s, \"rows\": [", text)
	}
	return err
}

func (o *object) row(values []any) error {
	for i, v := range values {
		switch v := v.(type) {
		case []byte:
			values[i] = fmt.Sprintf("x'%x'", v)
		case float64:
			if math.IsInf(v, 0) || math.IsNaN(v) {
				values[i] = fmt.Sprint(v)
			}
		}
	}
	text, err := sanitize.JSON(values)
	if err != nil {
		return err
	}
	separator := "\n"
	if o.some {
		separator = ",\n"
	}
	o.some = true
	_, err = fmt.Fprint(o.w, separator, text)
	return err
}

func (o *object) end() error {
	_, err := o.w.WriteString("\n]}\n")
	return err
}
