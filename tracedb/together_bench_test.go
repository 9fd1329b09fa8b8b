package tracedb

import (
	"sync"
	"testing"
	"time"
)

// BenchmarkTogether writes like the recorder of a server: eight drains, one file. The
// drains alternate by whole batches, so that a row costs as much as with one drain.
func BenchmarkTogether(b *testing.B) {
	const drains = 8
	db, first := benchSession(b)
	sessions := []*Session{first}
	for pid := range uint32(drains - 1) {
		s := begin(b, db, 100+pid)
		must(b, s.Agent(Agent{ID: 1, Name: "gfx90a", BDF: pid + 1}), s.Queue(Queue{ID: 1, Agent: 1}))
		sessions = append(sessions, s)
	}
	batch := sampleBatch()
	for _, s := range sessions { // the contexts are created once
		must(b, s.Dispatches(batch))
	}
	began := time.Now()
	for b.Loop() {
		var all sync.WaitGroup
		for _, s := range sessions {
			all.Go(func() {
				if err := s.Dispatches(batch); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	rate(b, db, began, b.N*drains*len(batch))
}
