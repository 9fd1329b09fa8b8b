package allocations

import (
	"context"
	"math"
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

var (
	goodAllocation = Allocation{
		StartNS: 20, EndNS: 30, Address: 0x7f0000001000, SizeBytes: 4096, Pool: 0x5500, TID: 7, Agent: 1,
		Operation: uint16(Pool), Flags: FlagAgentKnown,
	}
	goodRelease = Allocation{StartNS: 40, EndNS: 50, Address: 0x7f0000001000, TID: 8, Operation: uint16(PoolFree)}
	goodFailure = Allocation{StartNS: 60, EndNS: 60, SizeBytes: math.MaxUint64, Pool: 0x5500, Operation: uint16(Region), Status: 0x1008}
)

// impossible are changes after which no payload can have written the record.
var impossible = []struct {
	of    Allocation
	spoil func(*Allocation)
}{
	{goodAllocation, func(a *Allocation) { a.StartNS = 0 }},
	{goodAllocation, func(a *Allocation) { a.EndNS = a.StartNS - 1 }},
	{goodAllocation, func(a *Allocation) { a.EndNS = 1 << 63 }},
	{goodAllocation, func(a *Allocation) { a.SizeBytes = kind.MostCount + 1 }},
	{goodAllocation, func(a *Allocation) { a.Operation = uint16(OperationCount) }},
	{goodAllocation, func(a *Allocation) { a.Operation = math.MaxUint16 }},
	{goodAllocation, func(a *Allocation) { a.Flags = 2 | FlagAgentKnown }},
	{goodAllocation, func(a *Allocation) { a.Flags = 0 }}, // and an agent
	{goodAllocation, func(a *Allocation) { a.Pool = 0 }},  // and whose memory it is
	{goodRelease, func(a *Allocation) { a.SizeBytes = 1 }},
	{goodRelease, func(a *Allocation) { a.Pool = 1 }},
	{goodRelease, func(a *Allocation) { a.Flags = FlagAgentKnown }},
	{goodFailure, func(a *Allocation) { a.Address = 1 }},
}

func TestDecode(t *testing.T) {
	path, result := collect(t, func(p *ringtest.Producer) {
		ringtest.PutAs(p, TypeAllocation, goodAllocation) // its agent comes later
		p.String(1, "gfx90a")
		ringtest.Put(p, ring.Agent{ID: 1, Name: 1})
		ringtest.PutAs(p, TypeAllocation, goodRelease)
		ringtest.PutAs(p, TypeAllocation, goodFailure)
		for _, i := range impossible {
			bad := i.of
			i.spoil(&bad)
			ringtest.PutAs(p, TypeAllocation, bad)
		}
		ringtest.PutAs(p, TypeAllocation+1, goodAllocation)
		ringtest.Put(p, ring.KindAccount{Kind: uint32(ring.KindMemoryAllocation), Begun: 17})
		p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
	})
	account := tracedb.KindCoverage{Kind: "memory-allocation", Begun: 17, Timed: 3, Unexplained: 14}
	if len(result.Kinds) != 1 || result.Kinds[0] != account {
		t.Errorf("%+v", result.Kinds)
	}
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, `SELECT operation, g.ordinal, address, bytes, pool, status, start_ns, duration_ns, t.tid
		FROM rtl_allocation a LEFT JOIN rtl_agent g ON g.id = a.agent_id LEFT JOIN rtl_thread t ON t.id = a.thread_id ORDER BY a.id`,
		"0|0|139637976731648|4096|21760|0|20|10|7", "3|NULL|139637976731648|NULL|NULL|0|40|10|8",
		"1|NULL|NULL|9223372036854775807|NULL|4104|60|0|NULL")
	expect(t, read, "SELECT records FROM rtl_loss WHERE cause = '"+collector.CauseRefused+"'", "14")
	expect(t, read, "SELECT * FROM rtl_kind_coverage", "1|memory-allocation|17|3|0|14")
}

// An application may pass any address to a release, and the trace must take it.
func TestAnyAddress(t *testing.T) {
	path, _ := collect(t, func(p *ringtest.Producer) {
		for _, address := range []uint64{0, 1, 1 << 63, math.MaxUint64} {
			r := goodRelease
			r.Address, r.Status = address, 0x1001
			ringtest.PutAs(p, TypeAllocation, r)
		}
		p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
	})
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT address FROM rtl_allocation ORDER BY id", "NULL", "1", "NULL", "-1")
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
