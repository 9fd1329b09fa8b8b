package traceread

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

var (
	// ErrImpossible means that the file has values that no recorder writes, or more than a reader
	// accepts.
	ErrImpossible = errors.New("not what a recorder writes")
	// ErrNoRoom means that SQLite found no room, for sorting or for its output.
	ErrNoRoom = errors.New("no space left")
	// ErrInterrupted means that the context ended first.
	ErrInterrupted = errors.New("interrupted")
	// ErrEndless means that pages of the file refer to each other in a cycle.
	ErrEndless = fmt.Errorf("more rows than fit into the file: %w", ErrImpossible)
)

// Explain adds ErrImpossible or ErrNoRoom to an error of SQLite's that means one of them.
func Explain(err error) error {
	var refused sqlite3.Error
	switch {
	case errors.Is(err, ErrImpossible), errors.Is(err, ErrNoRoom):
		return err
	case errors.Is(err, tracedb.ErrRows):
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	case !errors.As(err, &refused):
		return err
	}
	switch refused.Code {
	case sqlite3.ErrFull:
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	case sqlite3.ErrCorrupt, sqlite3.ErrError, sqlite3.ErrMismatch, sqlite3.ErrTooBig, sqlite3.ErrConstraint:
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	return err
}

// Interrupted returns ErrInterrupted instead of any error after the context has ended.
func Interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// Row is one row of a query.
type Row struct{ rows *sql.Rows }

// Scan reads the row's values. It returns ErrImpossible for a value of the wrong type.
func (r Row) Scan(into ...any) error {
	if err := r.rows.Scan(into...); err != nil {
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	return nil
}

// Each calls visit for every row of a query without holding the rows. Pages in a cycle yield
// endless rows: Each returns ErrEndless after more rows than the file has room for.
func (tr *Trace) Each(ctx context.Context, visit func(Row) error, query string, args ...any) error {
	return tr.rows(ctx, tr.MostRows, ErrEndless, visit, query, args...)
}

// Define calls visit for every row of a query whose rows the caller holds: at most
// MostDefinitions.
func (tr *Trace) Define(ctx context.Context, visit func(Row) error, query string, args ...any) error {
	tooMany := fmt.Errorf("over %d rows: %w", MostDefinitions, ErrImpossible)
	return tr.rows(ctx, MostDefinitions, tooMany, visit, query, args...)
}

func (tr *Trace) rows(ctx context.Context, most int64, tooMany error, visit func(Row) error, query string, args ...any) error {
	rows, err := tr.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return Interrupted(ctx, err)
	}
	defer rows.Close()
	for n := int64(0); rows.Next(); n++ {
		if n >= most {
			return tooMany
		}
		if err := visit(Row{rows}); err != nil {
			return err
		}
	}
	return Interrupted(ctx, rows.Err())
}
