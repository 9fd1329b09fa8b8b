package tracedb

import (
	"testing"
	"time"
)

func sampleBatch() []Dispatch {
	batch := make([]Dispatch, 4096)
	for i := range batch {
		n := uint64(i)
		batch[i] = Dispatch{
			StartNS: 86400e9*30 + n*4000, EndNS: 86400e9*30 + n*4000 + 9000 + n%5000, SubmitNS: 86400e9*30 + n*4000 - 6000,
			Index: n, Queue: uint32(n%8) + 1, Launch: uint32(n%300) + 1, TID: 4000 + uint32(n/64%16),
		}
	}
	return batch
}

func benchSession(b *testing.B) (*DB, *Session) {
	db := create(b)
	s := begin(b, db, 42)
	must(b, s.Agent(Agent{ID: 1, Name: "gfx90a"}))
	for id := range uint32(8) {
		must(b, s.Queue(Queue{ID: id + 1, Agent: 1}))
	}
	for id := range uint32(300) {
		must(b, s.Launch(Launch{ID: id + 1, Agent: 1, Symbol: "kernel"}))
	}
	return db, s
}

// rate includes the last commit and the close.
func rate(b *testing.B, db *DB, began time.Time, rows int) {
	must(b, db.Close())
	b.ReportMetric(float64(rows)/time.Since(began).Seconds(), "rows/s")
	b.ReportMetric(float64(db.closedBytes(b))/float64(rows), "bytes/row")
}

func (db *DB) closedBytes(b *testing.B) uint64 {
	read, err := Open(db.place.Path)
	must(b, err)
	defer read.Close()
	var bytes uint64
	must(b, read.QueryRow("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes))
	return bytes
}

// BenchmarkDispatches writes as the recorder does, with commits.
func BenchmarkDispatches(b *testing.B) {
	db, s := benchSession(b)
	batch := sampleBatch()
	began := time.Now()
	for b.Loop() {
		must(b, s.Dispatches(batch))
	}
	rate(b, db, began, b.N*len(batch))
}

// BenchmarkRowByRow writes the same rows through a prepared statement, for comparison.
func BenchmarkRowByRow(b *testing.B) {
	db, _ := benchSession(b)
	batch := sampleBatch()
	insert, err := db.conn.PrepareContext(b.Context(), "INSERT INTO rtl_execution VALUES(NULL,?,?,?,?,?)")
	must(b, err)
	began := time.Now()
	for b.Loop() {
		must(b, db.begin())
		for i := range batch {
			d := &batch[i]
			if _, err := insert.Exec(d.Launch, int64(d.Index), int64(d.StartNS),
				int64(d.EndNS-d.StartNS), int64(d.StartNS-d.SubmitNS)); err != nil {
				b.Fatal(err)
			}
		}
	}
	must(b, insert.Close())
	rate(b, db, began, b.N*len(batch))
}
