package collector

import (
	"context"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
)

// A part of a session passes through the same checks as a session, and ends as a part: its open windows are
// not inconsistent, and that its session has no last record is no loss.
func TestReplay(t *testing.T) {
	p := ringtest.NewProducer(t, 1<<16)
	define(p)
	window(p, ring.WindowOpen, ring.Window{Index: 100, TimeNS: 50})
	for i := range uint64(6) {
		ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, Index: 100 + i, StartNS: 100, EndNS: 200, SubmitNS: 90, TID: 7})
	}
	window(p, ring.WindowClose, ring.Window{Index: 106, Dispatches: 6, TimeNS: 300})
	p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: 40, DetachedNS: 310})
	r, err := ring.Open(p.File, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, gone := &memory{}, make(chan struct{})
	close(gone)
	var kept [][]byte
	c := New(r, m, nil)
	c.Keep(func(r *ring.Record) { kept = append(kept, r.AppendTo(nil)) })
	if _, err := c.Run(context.Background(), gone); err != nil {
		t.Fatal(err)
	}
	replayed := &memory{}
	result, err := Replay(Part{
		Each: func(visit func(*ring.Record) error) error {
			var r ring.Record
			for _, b := range kept {
				if rest := r.Load(b); len(rest) != 0 {
					t.Fatalf("%d bytes behind a record", len(rest))
				}
				if r.Type() == ring.TypeEnd || r.Type() == ring.TypeWindow && ring.WindowKind(r.Window().Kind) == ring.WindowClose {
					continue
				}
				if err := visit(&r); err != nil {
					return err
				}
			}
			return nil
		},
		Reason: "a trigger", WindowEndNS: 5000, UntilNS: 6000,
	}, replayed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Losses) != 0 || len(replayed.losses) != 0 {
		t.Errorf("losses: %+v", result.Losses)
	}
	if len(replayed.dispatches) != len(m.dispatches) || len(replayed.launches) != len(m.launches) || replayed.launches[0] != m.launches[0] {
		t.Errorf("%d dispatches and %+v; of the session %d and %+v", len(replayed.dispatches), replayed.launches, len(m.dispatches), m.launches)
	}
	end := replayed.ends[0]
	if end.Reason != "a trigger" || end.WindowEndNS != 5000 || end.UntilNS != 6000 || end.DetachedNS != 0 ||
		end.Coverage[0].WindowsOpen != 1 || end.Coverage[0].Unexplained != 0 {
		t.Errorf("%+v", end)
	}
}
