package tracedb

import (
	"errors"
	"slices"
	"testing"
)

// Blocks returns every row once, in the order of ids, with NULLs and negative numbers
// unchanged.
func TestBlocks(t *testing.T) {
	db := create(t)
	s := begin(t, db, 42)
	const n = 2*blockRows + 17
	batch := make([]Dispatch, n)
	for i := range batch {
		batch[i] = Dispatch{Index: uint64(i), StartNS: 1000, EndNS: 1000 + uint64(i)}
		if i%2 == 0 {
			batch[i].SubmitNS = 2000 // after the start
		}
	}
	must(t, s.Dispatches(batch), s.End(End{}), db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	blocks, err := ReadBlocks(read, "rtl_execution", "duration_ns", "queued_ns")
	must(t, err)
	defer blocks.Close()
	seen := 0
	for values := make([]int64, 0); ; {
		values, err = blocks.Next(values)
		must(t, err)
		if len(values) == 0 {
			break
		}
		for at := 0; at < len(values); at += blocks.Width() {
			id, duration, queued := values[at], values[at+1], values[at+2]
			want := Null
			if seen%2 == 0 {
				want = -1000
			}
			if id != int64(seen+1) || duration != int64(seen) || queued != want {
				t.Fatalf("row %d: %d %d %d", seen, id, duration, queued)
			}
			seen++
		}
	}
	if seen != n {
		t.Errorf("%d rows of %d", seen, n)
	}
}

// A value that is not an integer is refused: as a number a text would be 0.
func TestBlocksOfText(t *testing.T) {
	db, _ := finished(t)
	for query, works := range map[string]bool{
		"SELECT rtl_pack(1, NULL, -5)":                      true,
		"SELECT rtl_pack('1')":                              false,
		"SELECT rtl_pack(1.0)":                              false,
		"SELECT rtl_pack(x'01')":                            false,
		"SELECT rtl_pack(1) FROM rtl_session WHERE id = 99": true,
	} {
		stmt, err := db.Prepare(query)
		must(t, err)
		values, err := Integers(stmt, nil)
		if works != (err == nil) {
			t.Errorf("%s: %v, %v", query, values, err)
		}
		must(t, stmt.Close())
	}
}

func TestWord(t *testing.T) {
	db, _ := finished(t)
	for arguments, want := range map[string]string{
		"x'00000000000000010203040506070809', 0": "1", "x'00000000000000010203040506070809', 1": "144964032628459529",
		"x'ffffffffffffffff', 0": "-1", "x'ffffffffffffffff', 1": "NULL", "x'ffffffffffffffff', -1": "NULL",
		"x'ffffffffffffff', 0": "NULL", "x'', 0": "NULL", "'12345678', 0": "NULL", "x'ffffffffffffffff', NULL": "NULL",
		"x'ffffffffffffffff', 9223372036854775807": "NULL", "NULL, 0": "NULL",
	} {
		expect(t, db, "SELECT coalesce(rtl_word("+arguments+"), 'NULL')", want)
	}
}

func TestBlocksOfMoreThanFits(t *testing.T) {
	db, _ := finished(t)
	blocks, err := ReadBlocks(db, "rtl_execution", "start_ns")
	must(t, err)
	defer blocks.Close()
	blocks.left = 2
	if _, err := blocks.Next(nil); !errors.Is(err, ErrRows) {
		t.Errorf("3 rows where 2 fit: %v", err)
	}
}

// Ids may have gaps; each row is returned once.
func TestBlocksOfFarIDs(t *testing.T) {
	db := create(t)
	must(t, begin(t, db, 42).End(End{}))
	for _, id := range []int64{-1 << 63, -5, 0, 1, blockRows, blockRows + 1, 1 << 40, 1<<63 - 2, 1<<63 - 1} {
		must(t, db.exec("INSERT INTO rtl_execution VALUES(?, 1, 2, 3, 4, 5)", id))
	}
	must(t, db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	blocks, err := ReadBlocks(read, "rtl_execution", "start_ns")
	must(t, err)
	defer blocks.Close()
	var ids []int64
	for {
		values, err := blocks.Next(nil)
		must(t, err)
		if len(values) == 0 {
			break
		}
		for at := 0; at < len(values); at += 2 {
			ids = append(ids, values[at])
		}
	}
	// The smallest integer means NULL: no recorder writes it as an id.
	if want := []int64{-5, 0, 1, blockRows, blockRows + 1, 1 << 40, 1<<63 - 2, 1<<63 - 1}; !slices.Equal(ids, want) {
		t.Errorf("%v", ids)
	}
}
