package tracedb

/*
#include "unpack.h"
*/
import "C"

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// Null is NULL in the integers that Blocks and Integers return.
const Null = null

// ErrRows is the error for a table with rows that no recorder writes.
var ErrRows = errors.New("rows that no recorder writes")

func init() {
	if rc := C.rtl_pack_install(); rc != 0 {
		panic(fmt.Sprintf("tracedb: register rtl_pack with SQLite: error %d", rc))
	}
}

// Integers runs a query that returns one value of rtl_pack, and returns the packed
// integers, in the memory of into if it is large enough.
func Integers(query *sql.Stmt, into []int64, args ...any) ([]int64, error) {
	rows, err := query.Query(args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var packed sql.RawBytes
	if rows.Next() {
		if err := rows.Scan(&packed); err != nil {
			return nil, err
		}
	}
	into = into[:0]
	if n := len(packed) / 8; n > 0 {
		into = append(into, make([]int64, n)...)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&into[0])), n*8), packed)
	}
	return into, rows.Err()
}

// Blocks reads columns of integers in the order of the rows' ids. Reading a row
// through the driver costs a microsecond, in a block a tenth of it.
type Blocks struct {
	query *sql.Stmt // the rows of a range of ids
	next  *sql.Stmt // the first id after the argument; NULL: there is none
	width int
	after int64 // the last id of the last range
	left  int64 // how many more rows the file has room for
}

const blockRows = 4096 // fits into a processor's cache

// leastRowBytes is the smallest size of a row: its entry in the page's list, and its header.
const leastRowBytes = 5

// MostRows returns the largest number of rows of one table for which the file has room.
func MostRows(db *sql.DB) (n int64, err error) {
	err = db.QueryRow("SELECT page_count * page_size / ? FROM pragma_page_count, pragma_page_size", leastRowBytes).Scan(&n)
	return n, err
}

// ReadBlocks begins to read a table. The caller must not take table or columns from
// untrusted input.
func ReadBlocks(db *sql.DB, table string, columns ...string) (*Blocks, error) {
	b := &Blocks{width: len(columns) + 1, after: null}
	var err error
	if b.left, err = MostRows(db); err != nil {
		return nil, err
	}
	b.query, err = db.Prepare(fmt.Sprintf("SELECT rtl_pack(id, %s) FROM %s WHERE id > ? AND id <= ?", strings.Join(columns, ", "), table))
	if err != nil {
		return nil, err
	}
	if b.next, err = db.Prepare("SELECT min(id) FROM " + table + " WHERE id > ?"); err != nil {
		return nil, errors.Join(err, b.query.Close())
	}
	return b, nil
}

// Width returns the number of values of a row: the id and the columns.
func (b *Blocks) Width() int { return b.width }

// Next returns the values of the next rows; none at the end. In a hostile file pages
// can refer to each other in a cycle, which yields endless rows: Next refuses them.
func (b *Blocks) Next(into []int64) ([]int64, error) {
	values, err := b.read(into)
	if err != nil || len(values) > 0 {
		return values, err
	}
	var first sql.NullInt64
	if err := b.next.QueryRow(b.after).Scan(&first); err != nil || !first.Valid {
		return nil, err
	}
	if first.Int64 <= b.after {
		return nil, errOrder
	}
	b.after = first.Int64 - 1
	return b.read(values)
}

var errOrder = fmt.Errorf("ids out of their order: %w", ErrRows)

// read returns the rows of the next range of ids, if there are any.
func (b *Blocks) read(into []int64) ([]int64, error) {
	until := b.after + min(blockRows, math.MaxInt64-max(b.after, 0))
	values, err := Integers(b.query, into, b.after, until)
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(values); at += b.width {
		if values[at] <= b.after || values[at] > until {
			return nil, errOrder
		}
		b.after = values[at]
	}
	if b.left -= int64(len(values) / b.width); b.left < 0 {
		return nil, fmt.Errorf("more than fit into the file: %w", ErrRows)
	}
	return values, nil
}

// Close closes the statements of b.
func (b *Blocks) Close() error { return errors.Join(b.query.Close(), b.next.Close()) }
