package copies

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func init() { tracedb.AddSchema(schema) } // package all does, which imports this one

// collect runs a collector over what produce writes into the ring, and returns the trace.
func collect(t *testing.T, produce func(p *ringtest.Producer)) (string, collector.Result) {
	t.Helper()
	p := ringtest.NewProducer(t, 1<<16)
	produce(p)
	r, err := ring.Open(p.File, 1, 1<<20)
	must(t, err)
	defer r.Close()
	db, path := create(t)
	gone := make(chan struct{})
	close(gone) // everything is written already
	result, err := collector.New(r, begin(t, db, 42), []*kind.Kind{Kind}).Run(context.Background(), gone)
	must(t, err, db.Close())
	return path, result
}

func TestDecode(t *testing.T) {
	good := Copy{StartNS: 20, EndNS: 30, SubmitNS: 10, Bytes: 4096, To: 1, TID: 7, Direction: uint16(HostToDevice)}
	late := Copy{SubmitNS: 11, StartNS: 5, Bytes: 8, From: 1, Direction: uint16(DeviceToHost), Reason: uint16(ring.ReasonNotCompleted)}
	path, result := collect(t, func(p *ringtest.Producer) {
		ringtest.PutAs(p, TypeCopy, good) // its agent comes later
		ringtest.PutAs(p, TypeCopy, late)
		p.String(1, "gfx90a")
		ringtest.Put(p, ring.Agent{ID: 1, Name: 1})
		for _, spoil := range []func(*Copy){
			func(c *Copy) { c.StartNS = 0 },
			func(c *Copy) { c.EndNS = c.StartNS - 1 },
			func(c *Copy) { c.EndNS = 1 << 63 },
			func(c *Copy) { c.SubmitNS = 1 << 63 },
			func(c *Copy) { c.Bytes = 1 << 63 },
			func(c *Copy) { c.Direction = uint16(DirectionCount) },
			func(c *Copy) { c.Reason = uint16(ring.ReasonCount) },
		} {
			bad := good
			spoil(&bad)
			ringtest.PutAs(p, TypeCopy, bad)
		}
		ringtest.Put(p, ring.KindAccount{Kind: uint32(ring.KindMemoryCopy), Begun: 10})
		p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
	})
	account := tracedb.KindCoverage{Kind: "memory-copy", Begun: 10, Timed: 1, Untimed: 1, Unexplained: 8}
	if len(result.Kinds) != 1 || result.Kinds[0] != account {
		t.Errorf("%+v", result.Kinds)
	}
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT start_ns, duration_ns, submit_ns, bytes, direction, reason_id FROM rtl_copy ORDER BY id",
		"20|10|10|4096|1|0", "NULL|NULL|11|8|2|7")
	expect(t, read, "SELECT records FROM rtl_loss WHERE cause = '"+collector.CauseRefused+"'", "7")
	expect(t, read, "SELECT * FROM rtl_kind_coverage", "1|memory-copy|10|1|1|8")
}

// Whether copies were to be recorded is known also where there were none.
func TestNoCopies(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		_, result := collect(t, func(p *ringtest.Producer) {
			if recorded {
				ringtest.Put(p, ring.KindAccount{Kind: uint32(ring.KindMemoryCopy)})
			}
			p.End(ring.EndRecord{})
		})
		if (len(result.Kinds) == 1) != recorded {
			t.Errorf("%t: %+v", recorded, result.Kinds)
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func create(t *testing.T) (*tracedb.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := tracedb.Create(tracedb.Place{Path: path})
	must(t, err)
	return db, path
}

func begin(t *testing.T, db *tracedb.DB, pid uint32) *tracedb.Session {
	t.Helper()
	s, err := db.Begin(tracedb.SessionInfo{PID: pid, Command: "serve"})
	must(t, err)
	return s
}
