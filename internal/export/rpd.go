package export

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"net/url"
	"os"

	"github.com/mattn/go-sqlite3"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

//go:embed rpd.sql
var rpdSQL string

//go:embed rpd_copies.sql
var rpdCopiesSQL string

// writeRPD makes a database with the content of the trace's compatible views as
// tables. SQLite copies, from one file to the other.
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
	if err := conn.Raw(giveHarmless); err != nil {
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
	fill, timedCopies := rpdSQL, "0"
	if tr.HasCopies {
		fill += rpdCopiesSQL
		timedCopies = "(SELECT count(*) FROM main.rtl_copy WHERE reason_id = 0 AND start_ns IS NOT NULL AND duration_ns IS NOT NULL)"
	}
	// The file is thrown away when anything fails: no journal, one transaction.
	_, err = conn.ExecContext(ctx, "PRAGMA made.journal_mode = OFF; PRAGMA made.synchronous = OFF; BEGIN;"+fill)
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
	return conn.QueryRowContext(ctx, `SELECT made_ops - copies, all_ops + copies - made_ops, copies, all_copies - copies FROM
		(SELECT (SELECT count(*) FROM made.rocpd_op) AS made_ops, (SELECT count(*) FROM made.rocpd_copyapi) AS copies,
			(SELECT count(*) FROM main.rtl_execution) AS all_ops, `+timedCopies+` AS all_copies)`).
		Scan(&r.Dispatches, &r.LeftOut, &r.Copies, &r.CopiesLeftOut)
}

// giveHarmless gives a connection of SQLite's the function harmless(text).
func giveHarmless(conn any) error {
	harmless := func(s string) string { return sanitize.Text(traceread.Cut(s, traceread.LongestName)) }
	return conn.(*sqlite3.SQLiteConn).RegisterFunc("harmless", harmless, true)
}

// samePlace makes sure that the file SQLite has opened by its name is the one that was made.
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

// writeCoverages keeps in the metadata what the schema has no place for.
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
