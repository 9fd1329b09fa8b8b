package ranks

import (
	"cmp"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// FuzzRanks: a trace may have been made by anybody. Four bytes are a kernel: its rank, its name and communicator, the time
// before it, and its length. What is found holds together.
func FuzzRanks(f *testing.F) {
	f.Add([]byte("0a1201a1202a1203a1200a3411a3412a3413a341"), uint8(30), uint16(100))
	f.Add([]byte("0a990a110a110b331a110a111b22"), uint8(200), uint16(7))
	f.Add([]byte("aaaaaaaaaaaabbbbccccdddd"), uint8(9), uint16(60000))
	f.Fuzz(func(t *testing.T, kernels []byte, times uint8, unit uint16) {
		if len(kernels) > 1<<10 {
			kernels = kernels[:1<<10]
		}
		a := &Analysis{ClockNS: ClockNS}
		hosts := []*traceread.Process{{ID: traceread.ProcessID{Host: "a"}}, {ID: traceread.ProcessID{Host: "a", PID: 2}}, {ID: traceread.ProcessID{Host: "b"}}}
		for i := range 6 {
			a.Ranks = append(a.Ranks, &Rank{Process: hosts[i/2], GPU: int64(i % 5)})
		}
		a.addFuzzed(kernels, min(int(times), 1<<13/(1+len(kernels)))+1, int64(unit))
		a.match()
		a.check(t)
		declared := []traceread.Span{{BeginNS: 1000, EndNS: 50_000_000}, {BeginNS: 60_000_000, EndNS: traceread.LatestNS}}
		usage := map[int64]*Usage{}
		for gpu := range int64(5) {
			u := a.Usage(gpu, declared, []traceread.Span{{BeginNS: 5, EndNS: 500_000}})
			for i := range int64(20) {
				u.Kernel(i*700_000, i*700_000+i*90_000, int32(i), i%3 == 0)
			}
			u.Finish()
			for _, ns := range append(u.NS[:], u.LateNS) {
				if ns < 0 {
					t.Fatalf("%+v", u)
				}
			}
			usage[gpu] = u
		}
		r, err := a.Result(usage, Naming{
			Kernel:   func(int64) (string, error) { return "k", nil },
			Number:   func(int32) (string, error) { return "n", nil },
			Recorded: func(int64) int64 { return 1 << 40 }, RecordedBy: func(*Rank) int64 { return 1 << 40 },
		})
		if err != nil || len(r.Servers) != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, s := range r.Servers {
			if s.Verdict == "" || s.Late != nil && (!s.Known || r.Ranks[*s.Late].Host != s.Host) {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// addFuzzed adds lanes.
func (a *Analysis) addFuzzed(kernels []byte, times int, unit int64) {
	lanes := map[laneKey]*lane{}
	at := int64(0)
	for range times {
		for all := kernels; len(all) >= 4; all = all[4:] {
			kernels := all[:4]
			key := laneKey{int(kernels[0]) % len(a.Ranks), int64(kernels[1]) % 3, int32(kernels[1]>>4) % 2}
			if lanes[key] == nil {
				lanes[key] = &lane{rank: key.rank, name: key.name, comm: key.comm}
			}
			at += int64(kernels[2]) * unit
			lanes[key].kernels = append(lanes[key].kernels, Kernel{at, at + int64(kernels[3])*unit*2, -1})
		}
	}
	for _, l := range lanes {
		slices.SortFunc(l.kernels, func(x, y Kernel) int { return cmp.Compare(x.EndNS, y.EndNS) })
		a.lanes = append(a.lanes, l)
	}
	slices.SortFunc(a.lanes, func(x, y *lane) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.comm, y.comm), cmp.Compare(x.rank, y.rank))
	})
}

// check checks what holds for all collectives.
func (a *Analysis) check(t *testing.T) {
	t.Helper()
	members := make([]map[int]bool, len(a.Collectives))
	for _, l := range a.lanes {
		for _, k := range l.kernels {
			if k.Collective < 0 {
				continue
			}
			c := &a.Collectives[k.Collective]
			if members[k.Collective] == nil {
				members[k.Collective] = map[int]bool{}
			}
			if members[k.Collective][l.rank] || c.Name != l.name || !slices.Contains(a.Groups[c.Group].Ranks, l.rank) {
				t.Fatalf("rank %d is twice in %+v, or not of it", l.rank, c)
			}
			members[k.Collective][l.rank] = true
			if k.StartNS < c.FirstNS || k.StartNS > c.LastNS || k.EndNS > c.EndNS || k.EndNS < c.LeastNS {
				t.Fatalf("%+v, %+v", k, c)
			}
			if wait := a.WaitNS(&k); wait < 0 || wait > k.EndNS-k.StartNS {
				t.Fatalf("%+v waits %d ns", k, wait)
			}
		}
	}
	for i, m := range members {
		c := &a.Collectives[i]
		if len(m) != int(c.Kernels) || c.Whole != (len(m) == len(a.Groups[c.Group].Ranks)) || c.PrevNS > c.LastNS || c.PrevNS < c.FirstNS || !m[int(c.Last)] ||
			c.LateNS() < 0 || c.LateNS() > c.SkewNS() {
			t.Fatalf("%+v of ranks %v", c, m)
		}
	}
}
