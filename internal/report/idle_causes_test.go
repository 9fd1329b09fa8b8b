package report

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// A summary has the largest causes of idle time that the report has, of all GPUs together, and what to run for the others.
func TestIdleCauses(t *testing.T) {
	for seed := range uint64(6) {
		sc := inventThreads(t, rand.New(rand.NewPCG(seed, 3)))
		r, err := Make(sc.path, Options{})
		must(t, err)
		s, err := Summarize(sc.path, 5)
		must(t, err)
		sums, idleNS := map[string]int64{}, int64(0)
		for _, g := range r.WhyIdle.GPUs {
			idleNS += g.IdleNS
			for _, c := range g.Causes {
				sums[c.Text] += c.NS
			}
		}
		got := s.IdleCauses
		if got == nil || got.IdleNS != idleNS || len(got.Causes) != topCauses || got.Skipped != "" {
			t.Fatalf("%+v, idle %d ns", got, idleNS)
		}
		for _, c := range got.Causes {
			if sums[c.Text] != c.NS {
				t.Errorf("%+v, the report has %d ns", c, sums[c.Text])
			}
			delete(sums, c.Text)
		}
		for text, ns := range sums {
			if ns > got.Causes[topCauses-1].NS {
				t.Errorf("%s has %d ns, which is more than %+v", text, ns, got.Causes)
			}
		}
		var b bytes.Buffer
		must(t, s.WriteText(&b))
		if text := b.String(); strings.Count(text, "\nWhy idle ") != 1 || !strings.Contains(text, "all causes: rtl-attach report "+sc.path+"\n") {
			t.Error(text)
		}
	}
}

// A summary of a large trace says that it has no causes, and where they are; one without threads' data says nothing.
func TestIdleCausesAreBounded(t *testing.T) {
	sc := inventThreads(t, rand.New(rand.NewPCG(1, 3)))
	change(t, sc.path, "UPDATE rtl_cpu_wait SET id = id + 2000000 WHERE id = (SELECT max(id) FROM rtl_cpu_wait)")
	s, err := Summarize(sc.path, 5)
	must(t, err)
	var b bytes.Buffer
	must(t, s.WriteText(&b))
	if s.IdleCauses == nil || s.IdleCauses.Skipped == "" || !strings.Contains(b.String(), "Why idle   not looked for here: the trace has 2,0") {
		t.Errorf("%+v\n%s", s.IdleCauses, b.String())
	}
	change(t, sc.path, "DROP TABLE rtl_cpu_wait")
	s, err = Summarize(sc.path, 5)
	must(t, err)
	if s.IdleCauses != nil {
		t.Errorf("%+v", s.IdleCauses)
	}
}
