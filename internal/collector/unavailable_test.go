package collector

import (
	"slices"
	"syscall"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Each kind that cannot be recorded is stored once, with its reason; a kind that there is not is refused.
func TestUnavailable(t *testing.T) {
	sink, result, err := collect(t, func(p *ringtest.Producer) {
		p.String(1, "no \x1b[31mtable")
		ringtest.Put(p, ring.Unavailable{Kind: uint32(ring.KindMemoryCopy), Reason: 1, Error: uint32(syscall.ENOSYS)})
		ringtest.Put(p, ring.Unavailable{Kind: uint32(ring.KindMemoryCopy)})
		ringtest.Put(p, ring.Unavailable{Kind: uint32(ring.KindMarker), Reason: 77, Error: uint32(syscall.ENOMEM)})
		ringtest.Put(p, ring.Unavailable{Kind: ring.KindsMax})
		p.End(ring.EndRecord{})
	})
	want := []tracedb.Unavailable{{Kind: "memory-copy", Reason: `no \x1b[31mtable`}, {Kind: "marker", Reason: syscall.ENOMEM.Error()}}
	if err != nil || !slices.Equal(sink.unavailable, want) || !slices.Equal(result.Unavailable, want) {
		t.Errorf("%v, %q, %q", err, sink.unavailable, result.Unavailable)
	}
	if records, _ := sink.loss(CauseRefused); records != 1 {
		t.Errorf("%d records refused, want 1", records)
	}
}
