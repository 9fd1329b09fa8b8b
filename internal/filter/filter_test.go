package filter

import (
	"fmt"
	"slices"
	"testing"
)

func of(t *testing.T, settings ...string) *Filter {
	t.Helper()
	var all []Setting
	for i := 0; i < len(settings); i += 2 {
		all = append(all, Setting{settings[i], settings[i+1]})
	}
	f, err := New(all)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNames(t *testing.T) {
	const name, symbol = "void gemm<float>(float*, int)", "_Z4gemmIfEvPT_i.kd"
	for _, c := range []struct {
		settings []string
		has      bool
	}{
		{nil, true},
		{[]string{IncludeRegex, "gemm"}, true},
		{[]string{IncludeRegex, "^gemm"}, false},
		{[]string{IncludeRegex, "^_Z4gemmIfEvPT_i$"}, true}, // the symbol, without the descriptor's suffix
		{[]string{IncludeRegex, "gemm<float>"}, true},
		{[]string{IncludeRegex, "softmax"}, false},
		{[]string{ExcludeRegex, "softmax"}, true},
		{[]string{ExcludeRegex, "_Z4gemm"}, false},
		{[]string{IncludeRegex, "gemm", ExcludeRegex, "float"}, false},
		{[]string{GPU, "1"}, true},
	} {
		if has := of(t, c.settings...).HasName(name, symbol); has != c.has {
			t.Errorf("%q: %v, want %v", c.settings, has, c.has)
		}
	}
	if !of(t, IncludeRegex, "gemm").HasName("(unresolved kernel)", "") {
		t.Error("a kernel without a name is left out")
	}
}

func TestIterations(t *testing.T) {
	for text, want := range map[string]Ranges{
		"[1-2],[5]":            {{1, 2}, {5, 5}},
		"1-2,5":                {{1, 2}, {5, 5}},
		"[1|[5-8]]":            {{1, 1}, {5, 8}},
		"[5-6] [1-4]":          {{1, 6}},
		"[1-9],[2-3]":          {{1, 9}},
		"3":                    {{3, 3}},
		" [ 10 - 12 ] ":        nil,
		"":                     nil,
		"[]":                   nil,
		"[0-2]":                nil,
		"[3-2]":                nil,
		"[a]":                  nil,
		"[1-2-3]":              nil,
		"99999999999999999999": nil,
	} {
		f, err := New([]Setting{{IterationRange, text}})
		if (err == nil) != (want != nil) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if err == nil && !slices.Equal(f.Iterations(), want) {
			t.Errorf("%q: %v, want %v", text, f.Iterations(), want)
		}
	}
	f := of(t, IterationRange, "[2-3],[7]")
	var kept []uint64
	for n := uint64(1); n < 10; n++ {
		if f.HasIteration(n) {
			kept = append(kept, n)
		}
	}
	if !slices.Equal(kept, []uint64{2, 3, 7}) {
		t.Errorf("kept %v", kept)
	}
}

func TestGPUs(t *testing.T) {
	const bdf = 0x83<<8 | 1<<3 | 2
	for text, has := range map[string]bool{
		"0": true, "1": false, "1,0-3": true, "83:01.2": true, "0000:83:01.2": true, "1:83:01.2": false, "83:01.3,5": false,
	} {
		if got := of(t, GPU, text).HasGPU(0, bdf); got != has {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, text := range []string{"", "x", "83:01", "83:3f.0", "-1"} {
		if _, err := New([]Setting{{GPU, text}}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if of(t, GPU, "0").HasGPU(-1, -1) {
		t.Error("a GPU that is not known is kept")
	}
}

func TestGPUsForPayload(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0-0", "3,1-2": "1-3", "0,2-3,1:83:00.0": "0-0,2-3,@4295000832", "83:00.0": "@33536",
	} {
		if got := of(t, GPU, text).GPUs(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	many := ""
	for i := range 300 {
		many += fmt.Sprintf("%d,", 1000+2*i)
	}
	for _, f := range []*Filter{nil, of(t, IncludeRegex, "x"), of(t, GPU, many)} {
		if got := f.GPUs(); got != "" {
			t.Errorf("%q", got)
		}
	}
}

func TestRanks(t *testing.T) {
	f := of(t, Rank, "0,2-3")
	for rank, has := range map[int64]bool{0: true, 1: false, 2: true, 3: true, 4: false, -1: false} {
		if f.HasRank(rank) != has {
			t.Errorf("rank %d: %v", rank, !has)
		}
	}
	if f.OfKernels() || !f.OfRanks() {
		t.Error("ranks are no filter of kernels")
	}
}

func FuzzSettings(f *testing.F) {
	for _, text := range []string{"[1-2],[5]", "1|[5-8]", "0,2-3", "83:01.2", "[", "(?i)gemm"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{IncludeRegex, ExcludeRegex, IterationRange, GPU, Rank} {
			one, err := New([]Setting{{name, text}})
			if err != nil {
				continue
			}
			for _, rs := range []Ranges{one.iterations, one.ranks, one.gpus.numbers} {
				for i, r := range rs {
					if r.First > r.Last || i > 0 && r.First <= rs[i-1].Last || !rs.Has(r.First) || !rs.Has(r.Last) {
						t.Fatalf("%q: %v", text, rs)
					}
				}
			}
		}
	})
}
