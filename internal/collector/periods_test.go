package collector

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
)

// sessions keeps the windows of a schedule.
type sessions struct {
	sinks    []*memory
	begun    []ring.Period
	missed   []ring.Period
	counters []ring.Counters
	told     []bool
}

func (s *sessions) Begin(p ring.Period) (Sink, error) {
	s.begun = append(s.begun, p)
	s.sinks = append(s.sinks, &memory{})
	return s.sinks[len(s.sinks)-1], nil
}

func (s *sessions) Ended(c ring.Counters, told bool) error {
	s.counters, s.told = append(s.counters, c), append(s.told, told)
	return nil
}

func (s *sessions) Missed(p ring.Period) error {
	s.missed = append(s.missed, p)
	return nil
}

func runSchedule(t *testing.T, p *ringtest.Producer) (*sessions, Result, error) {
	t.Helper()
	r, err := ring.Open(p.File, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := &sessions{}
	gone := make(chan struct{})
	close(gone) // everything is written already
	result, err := NewOfSchedule(r, s, nil).Run(context.Background(), gone)
	return s, result, err
}

// putWindow writes a window of a schedule with dispatches.
func putWindow(p *ringtest.Producer, number uint64, dispatches int) {
	ringtest.PutAs(p, ring.TypePeriod, ring.Period{What: uint16(ring.PeriodBegin), Generation: uint32(number + 2), Number: number, PlannedNS: 100, ArmedNS: 110})
	define(p)
	window(p, ring.WindowOpen, ring.Window{TimeNS: 120})
	for i := range uint64(dispatches) {
		ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, Index: i, StartNS: 200 + i, EndNS: 201 + i})
	}
	window(p, ring.WindowClose, ring.Window{TimeNS: 300, Index: uint64(dispatches), Dispatches: uint64(dispatches)})
	ringtest.PutAs(p, ring.TypeCounters, ring.CountersRecord{First: 1, Count: 1, Values: [6]uint64{number + 5}})
	ringtest.PutAs(p, ring.TypeEnd, ring.EndRecord{End: uint32(ring.EndPeriod), ArmedNS: 110, DetachedNS: 310})
}

func putSchedule(p *ringtest.Producer) {
	putWindow(p, 0, 3)
	ringtest.PutAs(p, ring.TypePeriod, ring.Period{What: uint16(ring.PeriodMissed), Number: 1, Count: 2, Error: -19})
	putWindow(p, 3, 2)
	ringtest.PutAs(p, ring.TypePeriod, ring.Period{What: uint16(ring.PeriodLast), End: uint32(ring.EndSchedule)})
}

// TestSchedule: each window has a sink, ids and counters of its own.
func TestSchedule(t *testing.T) {
	p := ringtest.NewProducer(t, 1<<16)
	putSchedule(p)
	s, result, err := runSchedule(t, p)
	if err != nil || len(s.sinks) != 2 || result.Timed != 5 || result.End != ring.EndSchedule || len(result.Losses) != 0 {
		t.Fatalf("%v, %d windows, %+v", err, len(s.sinks), result)
	}
	for i, dispatches := range []int{3, 2} {
		if sink := s.sinks[i]; len(sink.dispatches) != dispatches || len(sink.launches) != 1 || len(sink.ends) != 1 {
			t.Errorf("window %d: %+v", i, sink)
		}
	}
	if s.begun[1].Number != 3 || len(s.missed) != 1 || s.missed[0].Count != 2 || s.missed[0].Error != -19 || !s.told[0] || !s.told[1] || s.counters[0] == s.counters[1] {
		t.Errorf("%+v", s)
	}
}

// FuzzSchedule: whatever lines a target writes, the collector ends, and each window that it has begun has an end.
func FuzzSchedule(f *testing.F) {
	p := ringtest.NewProducer(f, 1<<16)
	putSchedule(p)
	const lines = 40
	f.Add(bytes.Clone(p.Lines[:lines*ring.LineBytes]), uint16(lines))
	f.Add(bytes.Clone(p.Lines[:lines/2*ring.LineBytes]), uint16(lines/2))
	f.Fuzz(func(t *testing.T, lines []byte, count uint16) {
		p := ringtest.NewProducer(t, 1<<16)
		copy(p.Lines, lines)
		p.Header.Head = uint64(count) % 1024 * ring.LineBytes
		s, _, err := runSchedule(t, p)
		if err != nil && !errors.Is(err, ring.ErrCorrupt) {
			t.Fatal(err)
		}
		for i, sink := range s.sinks {
			if len(sink.ends) != 1 {
				t.Fatalf("window %d: %d ends", i, len(sink.ends))
			}
		}
		for _, one := range append(s.begun, s.missed...) {
			if one.Count > 1<<62 || one.Number > 1<<62 {
				t.Fatalf("%+v", one)
			}
		}
	})
}
