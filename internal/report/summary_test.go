package report

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Whatever a broken target scribbles over its ring, there is a trace, and it can be
// summarised.
func TestSummaryOfScribbledRings(t *testing.T) {
	var corrupt int
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		p := ringtest.NewProducer(t, 1<<19)
		whole(t, p)
		for range 1 + random.IntN(50) {
			p.Lines[random.Uint64N(p.Header.Head)] = byte(random.Uint32())
		}
		path, err := collect(t, p, ring.Counters{QueuesSeen: 3})
		if errors.Is(err, ring.ErrCorrupt) {
			corrupt++
		} else if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		s, err := Summarize(path, 10)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := s.WriteText(io.Discard); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if corrupt == 0 || corrupt == 60 {
		t.Errorf("%d of 60 rings found corrupt: the test reaches one way only", corrupt)
	}
}

func TestSummary(t *testing.T) {
	for name, write := range map[string]produce{"whole": whole, "gaps": gaps, "nothing": nothing, "copies": withCopies, "calls": withCalls, "allocations": withAllocations, "markers": withMarkers} {
		t.Run(name, func(t *testing.T) {
			s, err := Summarize(traceOf(t, write), 3)
			if err != nil {
				t.Fatal(err)
			}
			s.File, s.SizeBytes = "trace-41220-1203.db", 131_000_000 // a temporary folder, and pages
			for i := range s.Sessions {
				s.Sessions[i].BegunNS = second // the clock of this run
			}
			var text, json bytes.Buffer
			if err := s.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if err := s.WriteJSON(&json); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", text.Bytes())
			golden(t, name+".json", json.Bytes())
			if i := bytes.IndexAny(text.Bytes(), "\x1b\u202e"); i >= 0 {
				t.Errorf("a control character reaches the terminal at %d", i)
			}
		})
	}
}

// Numbers at the edge of what is let through overflow no sum.
func TestSummaryOfExtremes(t *testing.T) {
	const latest, most = 1<<62 - 1, 1 << 48
	path := traceOf(t, func(t *testing.T, p *ringtest.Producer) {
		header(t, p)
		for range 10 {
			put(t, p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 1, EndNS: latest, SubmitNS: latest})
			put(t, p, ring.Dispatch{Queue: 2, Launch: 1, StartNS: latest, EndNS: latest, SubmitNS: 1})
			put(t, p, ring.Untimed{Queue: 1, Count: most, Reason: uint32(ring.ReasonBacklog)})
			put(t, p, ring.LostRecord{Count: most})
			put(t, p, ring.Window{Queue: 3, Kind: uint32(ring.WindowClose), Dispatches: most, Others: most, After: most, Raw: most})
		}
		p.End(ring.EndRecord{ArmedNS: latest, DetachedNS: 1})
	})
	s, err := Summarize(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	if s.Coverage.Timed != 20 || s.GPUs[0].Percent < 99.9 || s.GPUs[0].Percent > 100.1 {
		t.Errorf("%+v, %+v", s.Coverage, s.GPUs)
	}
	if err := s.WriteText(io.Discard); err != nil {
		t.Fatal(err)
	}
}

// Claims that no queue's account holds are said, and nothing is complete then.
func TestSummaryOfUnseenClaims(t *testing.T) {
	for _, c := range []struct {
		write    produce
		counters ring.Counters
		unseen   int64
		text     string
	}{
		{gaps, ring.Counters{QueuesSeen: 3, RawClaims: 3}, 0, "3 claims made after the attach, before the queue was recorded"},
		{gaps, ring.Counters{QueuesSeen: 4, RawClaims: 40}, 37, "37 claims made after the attach on queues that were not known yet, or never recorded"},
		{whole, ring.Counters{QueuesSeen: 3, RawClaims: 1}, 1, "1 claim made after the attach on queues that were not known yet, or never recorded"},
		{whole, ring.Counters{QueuesSeen: 3, QueuesForeign: 1}, 0, "1 queue of another tool or without hardware: not recorded"},
		{whole, ring.Counters{QueuesSeen: 5, QueuesExcluded: 3}, 0, "3 queues of other GPUs left as they were: nothing of these GPUs is here"},
		{whole, ring.Counters{QueuesSeen: 5}, 0, "2 queues seen and never recorded"},
	} {
		p := ringtest.NewProducer(t, 1<<19)
		c.write(t, p)
		path, err := collect(t, p, c.counters)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Summarize(path, 1)
		if err != nil {
			t.Fatal(err)
		}
		if s.Coverage.RawUnseen != c.unseen || s.Coverage.Complete() {
			t.Errorf("%+v: %+v", c.counters, s.Coverage)
		}
		var text bytes.Buffer
		if err := s.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text.Bytes(), []byte(" "+c.text+"\n")) {
			t.Errorf("%+v: not said: %s\n%s", c.counters, c.text, text.Bytes())
		}
	}
}

// A killed recorder settles no account; what it wrote still counts.
func TestSummaryOfCutOffTrace(t *testing.T) {
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "trace.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Create(place)
	if err != nil {
		t.Fatal(err)
	}
	session, err := db.Begin(tracedb.SessionInfo{PID: 41220})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		session.Agent(tracedb.Agent{ID: 1}),
		session.Queue(tracedb.Queue{ID: 1, Agent: 1}),
		session.Dispatches([]tracedb.Dispatch{{Queue: 1, StartNS: 10, EndNS: 20}, {Queue: 1, StartNS: 30, EndNS: 50}}),
		session.Untimed(tracedb.Untimed{Queue: 1, Reason: uint32(ring.ReasonNoSignal), Index: 2, Packets: 7}),
		session.Untimed(tracedb.Untimed{Queue: 1, Reason: uint32(ring.ReasonAfterDetach), Index: 9, Packets: 3}),
		db.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := Summarize(place.Path, 10)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Coverage
	if c.Timed != 2 || c.Dispatches != 9 || c.WindowsOpen != 1 || c.Complete() || s.Sessions[0].Complete {
		t.Errorf("coverage %+v, sessions %+v", c, s.Sessions)
	}
	if g := s.GPUs[0]; g.BusyNS != 30 || g.RecordedNS != 40 || !g.AtLeast || g.Coverage != (Seen{Dispatches: 9, Timed: 2}) {
		t.Errorf("GPU %+v", g)
	}
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text.Bytes(), []byte("the recorder was killed")) {
		t.Errorf("not said:\n%s", text.Bytes())
	}
}

// Copies of a killed recorder make up for none that another one lost.
func TestCopiesOfCutOffSession(t *testing.T) {
	db, path := create(t)
	whole, cut := begin(t, db, 41220, "server"), begin(t, db, 41377, "server")
	copied := copies.Copy{StartNS: 10, EndNS: 20, To: 1, Direction: uint16(copies.HostToDevice)}
	must(t,
		whole.Kind(1, func(w tracedb.KindWriter) error { return copies.Store(w, []copies.Copy{copied}) }),
		cut.Kind(2, func(w tracedb.KindWriter) error { return copies.Store(w, []copies.Copy{copied, copied}) }),
		whole.End(tracedb.End{Kinds: []tracedb.KindCoverage{{Kind: copies.Kind.ID.String(), Begun: 3, Timed: 1, Unexplained: 2}}}),
		db.Close())
	s, err := Summarize(path, 1)
	must(t, err)
	if c := s.Kinds[copies.Kind.ID.String()].(*copies.Report); c.Begun != 5 || c.Timed != 3 || c.Unexplained != 2 || c.Surplus != 0 {
		t.Errorf("%+v", c)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}
