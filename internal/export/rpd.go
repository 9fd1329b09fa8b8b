package export

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/mattn/go-sqlite3"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

//go:embed rpd.sql
var rpdSQL string

// writeRPD writes a database with the content of the trace's compatible views as tables.
// SQLite copies from one file to the other.
func writeRPD(ctx context.Context, tr *trace, output string) (*Result, error) {
	if output == Stdout {
		return nil, fmt.Errorf("rpd: %w", ErrNeedsFile)
	}
	r := &Result{Path: output, Sessions: tr.coverages()}
	made, err := makeFile(output, func(file *os.File) error {
		err := copyTrace(ctx, tr, file, output, r)
		if err != nil {
			return fmt.Errorf("write rpd: %w", traceread.Interrupted(ctx, err))
		}
		info, err := file.Stat()
		if err == nil {
			r.Bytes = info.Size()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.made = made
	return r, nil
}

func copyTrace(ctx context.Context, tr *trace, file *os.File, output string, r *Result) error {
	conn, err := tr.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Raw(giveFuncs); err != nil {
		return err
	}
	target := url.URL{Scheme: "file", Opaque: url.PathEscape(output), RawQuery: "mode=rw"}
	if _, err := conn.ExecContext(ctx, "ATTACH ? AS made", target.String()); err != nil {
		return err
	}
	defer func() { _, _ = conn.ExecContext(context.Background(), "DETACH made") }()
	if err := samePlace(file, output); err != nil {
		return err
	}
	kinds, fill, err := rpdKinds(tr)
	if err != nil {
		return err
	}
	links, err := rpdLinks(ctx, tr, conn, kinds)
	if err != nil {
		return err
	}
	// On any error the file is removed: no journal, one transaction.
	_, err = conn.ExecContext(ctx, "PRAGMA made.journal_mode = OFF; PRAGMA made.synchronous = OFF; BEGIN;"+links+fill)
	if err == nil {
		err = writeCoverages(ctx, conn, r.Sessions)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK")
		return err
	}
	return countRPD(ctx, conn, kinds, r)
}

// rpdKinds returns the kinds in the trace that the format can represent, and the SQL that
// copies the whole trace.
func rpdKinds(tr *trace) (kinds []*kind.Kind, fill string, err error) {
	fill = rpdSQL
	for _, k := range all.Kinds {
		if k.Export.RPD == nil {
			continue
		}
		is, err := k.IsIn(tr.Trace)
		if err != nil {
			return nil, "", err
		}
		if is {
			kinds, fill = append(kinds, k), fill+k.Export.RPD.SQL
		}
	}
	return kinds, fill, nil
}

// rpdLinks returns the SQL of temporary tables: linked has the operations that calls of HIP submitted,
// submitted_KIND the rows of a kind. They are empty in a trace without such calls.
func rpdLinks(ctx context.Context, tr *trace, conn *sql.Conn, kinds []*kind.Kind) (links string, err error) {
	is, err := calls.HIPRuntime.IsIn(tr.Trace)
	if err == nil && is {
		is, err = tr.makeSpans(ctx, conn)
	}
	const fill = "INSERT INTO temp.%s SELECT id, call_id FROM (%s) WHERE call_id IS NOT NULL;"
	const table = "CREATE TEMP TABLE %s(%s INTEGER PRIMARY KEY, call_id INTEGER NOT NULL);"
	links = fmt.Sprintf(table, "linked", "op_id")
	if is {
		links += fmt.Sprintf(fill, "linked", submittedSQL(kernelsSQL, tr.MostRows))
	}
	for _, k := range kinds {
		if k.Export.Submits == "" {
			continue
		}
		name := "submitted_" + strings.ReplaceAll(k.ID.String(), "-", "_")
		links += fmt.Sprintf(table, name, "id")
		if is {
			links += fmt.Sprintf(fill, name, submittedSQL(k.Export.Submits, tr.MostRows))
		}
	}
	return links, err
}

// countRPD counts the rows that were copied, and the rows that were not.
func countRPD(ctx context.Context, conn *sql.Conn, kinds []*kind.Kind, r *Result) error {
	var ops, rows int64
	err := conn.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM made.rocpd_op), (SELECT count(*) FROM rtl_execution)").Scan(&ops, &rows)
	for _, k := range kinds {
		one := r.of(k)
		var there int64
		err = errors.Join(err, conn.QueryRowContext(ctx, "SELECT ("+k.Export.RPD.Written+"), ("+k.Export.RPD.Rows+")").Scan(&one.Written, &there))
		one.LeftOut = there - one.Written
		if !k.Export.RPD.IsAPI {
			ops -= one.Written
		}
	}
	r.Dispatches, r.LeftOut = ops, rows-ops
	return err
}

// giveFuncs adds the function harmless(text) to an SQLite connection, and the functions of kinds.
func giveFuncs(conn any) error {
	to := conn.(*sqlite3.SQLiteConn)
	harmless := func(s string) string { return sanitize.Text(traceread.Cut(s, traceread.LongestName)) }
	errs := []error{to.RegisterFunc("harmless", harmless, true)}
	for _, k := range all.Kinds {
		if k.Export.RPD == nil {
			continue
		}
		for name, f := range k.Export.RPD.Funcs {
			errs = append(errs, to.RegisterFunc(name, f, true))
		}
	}
	return errors.Join(errs...)
}

// samePlace checks that SQLite has opened the file that was created, not another of its name.
func samePlace(file *os.File, path string) error {
	ours, err := file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(ours, there) {
		return fmt.Errorf("%s was replaced while it was being made", path)
	}
	return nil
}

// writeCoverages writes the coverage, for which the schema has no table, to the metadata.
func writeCoverages(ctx context.Context, conn *sql.Conn, all []Coverage) error {
	for _, c := range all {
		_, err := conn.ExecContext(ctx, "INSERT INTO made.rocpd_metadata(tag, value) VALUES(?, ?)",
			fmt.Sprintf("session_%d_coverage", c.Session), c.String())
		if err != nil {
			return err
		}
	}
	return nil
}
