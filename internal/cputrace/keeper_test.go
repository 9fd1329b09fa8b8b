package cputrace

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A cut has the samples of its span, and its waits clipped to that; what is older is dropped.
func TestKeeper(t *testing.T) {
	now := uint64(1e9)
	k := NewKeeper(Window{BegunNS: 1e9, Method: "bpf", CPUHz: 99, Scheduling: true, Locks: []Lock{{GIL, 0x7f0000001000, 208}}}, time.Second, func() uint64 { return 1 << 20 }, func() uint64 { return now })
	k.Add(&Batch{Frames: []Frame{{ID: 1, Name: "main"}, {ID: 2, Name: "unused"}}, Stacks: []Stack{{ID: 1, Frame: 1}, {ID: 2, Parent: 1, Frame: 1}, {ID: 3, Frame: 2}}})
	for i := range uint64(300) {
		now += 10e6
		k.Add(&Batch{
			Samples: []Sample{{TID: 7, TimeNS: now, Stack: 2}},
			Waits:   []Wait{{TID: 8, OutNS: now - 9e6, WokenNS: now - 2e6, InNS: now - 1e6, Syscall: -1}},
		})
		k.Count([]Loss{{"ring full", i}})
	}
	k.Complete(now, []Loss{{"ring full", 300}}, []Wait{{TID: 9, OutNS: 2e9, State: 1, Syscall: 202}}, "detail")
	from, until := now-500e6, now-100e6
	s, db := session(t)
	if err := k.Cut().Write(s, from, until, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := tracedb.Open(db.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	for query, want := range map[string]int64{
		"SELECT begun_ns FROM rtl_cpu_window": int64(from),
		"SELECT ended_ns FROM rtl_cpu_window": int64(until),
		"SELECT count(*) FROM rtl_cpu_sample": 41,
		"SELECT count(*) FROM rtl_cpu_frame":  1,
		"SELECT count(*) FROM rtl_cpu_lock WHERE kind = 0 AND address = 0x7f0000001000 AND bytes = 208": 1,
		"SELECT count(*) FROM rtl_cpu_stack": 2,
		"SELECT count(*) FROM rtl_cpu_wait WHERE in_ns IS NULL AND woken_ns IS NULL AND syscall = 202 AND out_ns = (SELECT begun_ns FROM rtl_cpu_window)": 1,
		"SELECT count(*) FROM rtl_cpu_wait, rtl_cpu_window WHERE out_ns < begun_ns OR in_ns > ended_ns OR woken_ns > ended_ns":                            0,
		"SELECT events BETWEEN 50 AND 70 FROM rtl_cpu_loss":                                                                                               1,
	} {
		var got int64
		if err := read.QueryRow(query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, want %d: %v", query, got, want, err)
		}
	}
	if oldest := k.Cut().fromNS; oldest < now-1100e6 || oldest > now-900e6 {
		t.Errorf("everything is kept since %v before", time.Duration(now-oldest))
	}
}

// The rows stay within their limit, whatever comes.
func TestKeeperIsBounded(t *testing.T) {
	now := uint64(1e9)
	k := NewKeeper(Window{BegunNS: now}, time.Hour, func() uint64 { return 1 << 20 }, func() uint64 { return now })
	for range 1000 {
		now += 30e6
		k.Add(&Batch{Waits: make([]Wait, 100), Samples: make([]Sample, 100)})
		k.Count(nil)
		if k.Bytes() > 1<<20 {
			t.Fatalf("%d bytes", k.Bytes())
		}
	}
	if len(k.counts) > mostCounts || k.fromNS == 1e9 || len(k.Cut().chunks) == 0 {
		t.Errorf("%d counts, everything since %d", len(k.counts), k.fromNS)
	}
}

func session(t *testing.T) (*tracedb.Session, *tracedb.DB) {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "t.db"), 0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Create(place)
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Begin(tracedb.SessionInfo{PID: 7, ThreadName: func(uint32) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

// A wait that goes on at the end of a cut is there once, also when its row came before the cut was made.
func TestKeeperOpenWait(t *testing.T) {
	k := NewKeeper(Window{BegunNS: 1, Method: "bpf", Scheduling: true}, time.Hour, func() uint64 { return 1 << 20 }, func() uint64 { return 900 })
	k.Add(&Batch{Waits: []Wait{{TID: 7, OutNS: 100, InNS: 200}, {TID: 7, OutNS: 300, InNS: 600}, {TID: 9, OutNS: 450, InNS: 700}}})
	k.Complete(500, nil, []Wait{{TID: 7, OutNS: 300}, {TID: 8, OutNS: 300}, {TID: 9, OutNS: 450}}, "")
	var got []Wait
	for _, w := range k.Cut().within(150, 500).Waits {
		got = append(got, Wait{TID: w.TID, OutNS: w.OutNS, InNS: w.InNS})
	}
	want := []Wait{{TID: 7, OutNS: 150, InNS: 200}, {TID: 7, OutNS: 300}, {TID: 9, OutNS: 450}, {TID: 8, OutNS: 300}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
