package tracedb

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#include "unpack.h"
*/
import "C"

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	_ "github.com/mattn/go-sqlite3" // compiles SQLite, which unpack.c extends
)

// null is NULL in a packed row.
const null int64 = C.RTL_UNPACK_NULL

func init() {
	if rc := C.rtl_unpack_install(); rc != 0 {
		panic(fmt.Sprintf("tracedb: register rtl_unpack with SQLite: error %d", rc))
	}
}

// bulk inserts rows of integers, thousands in one call.
type bulk struct {
	insert *sql.Stmt
	width  int // of a row, in values
	words  int // of which the last ones are words, and the value before them their number
	values []int64
}

const bulkRows = 8192

func newBulk(conn preparer, table string, columns ...string) (*bulk, error) {
	return newBulkOf(conn, table, columns, fmt.Sprintf("rtl_unpack(?, %d)", len(columns)), len(columns), 0)
}

// newBulkWithWords returns a bulk whose rows have a column of up to mostWords words.
func newBulkWithWords(conn preparer, table string, columns []string, words string, mostWords int) (*bulk, error) {
	width := len(columns) + 1 + mostWords
	from := fmt.Sprintf("rtl_unpack(?, %d, %d)", width, len(columns))
	return newBulkOf(conn, table, append(slices.Clone(columns), words), from, width, mostWords)
}

func newBulkOf(conn preparer, table string, columns []string, from string, width, words int) (*bulk, error) {
	unpacked := make([]string, len(columns))
	for i := range columns {
		unpacked[i] = fmt.Sprintf("c%d", i)
	}
	if words > 0 {
		unpacked[len(columns)-1] = "words"
	}
	insert, err := conn.PrepareContext(background, fmt.Sprintf("INSERT INTO %s(%s) SELECT %s FROM %s",
		table, strings.Join(columns, ", "), strings.Join(unpacked, ", "), from))
	if err != nil {
		return nil, err
	}
	return &bulk{insert: insert, width: width, words: words, values: make([]int64, 0, bulkRows*width)}, nil
}

// add appends one row; the caller must flush when full is true.
func (b *bulk) add(row ...int64) (full bool) {
	b.values = append(b.values, row...)
	return len(b.values) == cap(b.values)
}

// addWords appends the words that end a row.
func (b *bulk) addWords(words []uint64) (full bool) {
	b.values = append(b.values, int64(len(words)))
	for _, w := range words {
		b.values = append(b.values, int64(w))
	}
	for range b.words - len(words) {
		b.values = append(b.values, 0)
	}
	return len(b.values) == cap(b.values)
}

// flush passes the rows to SQLite, and drops them even if that fails.
func (b *bulk) flush() error {
	if len(b.values) == 0 {
		return nil
	}
	packed := unsafe.Slice((*byte)(unsafe.Pointer(&b.values[0])), len(b.values)*8)
	_, err := b.insert.Exec(packed)
	b.values = b.values[:0]
	return err
}

func (b *bulk) close() error {
	if b == nil {
		return nil
	}
	return b.insert.Close()
}
