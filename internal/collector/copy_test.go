package collector

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func TestCopies(t *testing.T) {
	good := ring.Copy{StartNS: 20, EndNS: 30, SubmitNS: 10, Bytes: 4096, To: 1, TID: 7, Direction: uint16(ring.HostToDevice)}
	late := ring.Copy{SubmitNS: 11, Bytes: 8, From: 1, Direction: uint16(ring.DeviceToHost), Reason: uint16(ring.ReasonNotCompleted)}
	sink, result, err := collect(t, func(p *ringtest.Producer) {
		ringtest.Put(p, good) // its agent comes later
		ringtest.Put(p, late)
		define(p)
		for _, spoil := range []func(*ring.Copy){
			func(c *ring.Copy) { c.StartNS = 0 },
			func(c *ring.Copy) { c.EndNS = c.StartNS - 1 },
			func(c *ring.Copy) { c.EndNS = 1 << 63 },
			func(c *ring.Copy) { c.SubmitNS = 1 << 63 },
			func(c *ring.Copy) { c.Bytes = 1 << 63 },
			func(c *ring.Copy) { c.Direction = uint16(ring.DirectionCount) },
			func(c *ring.Copy) { c.Reason = uint16(ring.ReasonCount) },
		} {
			bad := good
			spoil(&bad)
			ringtest.Put(p, bad)
		}
		ringtest.Put(p, ring.KindAccount{Kind: uint32(ring.KindMemoryCopy), Begun: 10})
		p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
	})
	if err != nil {
		t.Fatal(err)
	}
	want := tracedb.Copy{StartNS: 20, EndNS: 30, SubmitNS: 10, Bytes: 4096, To: 1, TID: 7, Direction: 1}
	if len(sink.copies) != 2 || sink.copies[0] != want || sink.copies[1].Reason != late.Reason || sink.copies[1].StartNS != 0 {
		t.Errorf("%+v", sink.copies)
	}
	if records, _ := sink.loss(CauseRefused); records != 7 {
		t.Errorf("%d refused", records)
	}
	account := tracedb.CopyCoverage{Begun: 10, Timed: 1, Untimed: 1, Unexplained: 8}
	if result.Copies == nil || *result.Copies != account || *sink.ends[0].Copies != account {
		t.Errorf("%+v", result.Copies)
	}
}

// Whether copies were to be recorded is known also where there were none.
func TestNoCopies(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		_, result, err := collect(t, func(p *ringtest.Producer) {
			if recorded {
				ringtest.Put(p, ring.KindAccount{Kind: uint32(ring.KindMemoryCopy)})
			}
			p.End(ring.EndRecord{})
		})
		if err != nil || (result.Copies != nil) != recorded {
			t.Errorf("%t: %v, %+v", recorded, err, result.Copies)
		}
	}
}
