package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// runner runs the measurements. Its processes start when first needed and end with the
// repetition, so that the memory layout of one process does not affect all values of a
// row.
type runner struct {
	build, scratch, peer, payload string

	pool  map[string]*process
	notes []string
	count int
}

func key(c cell, v variant) string { return c.workload + " " + v.home() }

func (r *runner) process(c cell, v variant) (*process, error) {
	if p := r.pool[key(c, v)]; p != nil {
		return p, nil
	}
	line := append([]string{filepath.Join(r.build, "workloads", c.workload)}, c.flags...)
	if strings.HasSuffix(c.workload, ".py") {
		line = append([]string{"python3"}, line...)
	}
	p, err := start(line, append(r.environment(v), c.env...))
	if err != nil {
		return nil, err
	}
	r.pool[key(c, v)] = p
	if v.home() == ours {
		return p, r.attachOnce(p)
	}
	return p, nil
}

// attachOnce attaches and detaches once, because the first attach loads the payload. The
// tool's error that it recorded nothing is expected.
func (r *runner) attachOnce(p *process) error {
	rec, err := r.record(p, "active")
	if err != nil {
		return err
	}
	_, _ = rec.stop()
	_ = os.Remove(rec.trace) // without dispatches there is none
	return nil
}

// discard ends a process and returns how it ended.
func (r *runner) discard(c cell, v variant) string {
	p := r.pool[key(c, v)]
	delete(r.pool, key(c, v))
	return p.end()
}

func (r *runner) close() {
	for k, p := range r.pool {
		p.end()
		delete(r.pool, k)
	}
}

func (r *runner) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// repeat fills the rows and returns the number of repetitions.
func repeat(r *runner, cells []cell, rows []*row, o options) int {
	began, longest := time.Now(), time.Duration(0)
	for n := range o.pairs {
		if n > 0 && time.Since(began)+longest > o.limit {
			r.note("stopped after %d of %d repetitions: -limit is reached", n, o.pairs)
			return n
		}
		fmt.Fprintf(os.Stderr, "bench: repetition %d of %d\n", n+1, o.pairs)
		from := time.Now()
		repetition(r, cells, rows, n, o.seconds)
		r.close()
		longest = max(longest, time.Since(from))
	}
	return o.pairs
}

// repetition measures each cell once. The order of the variants alternates between
// repetitions.
func repetition(r *runner, cells []cell, rows []*row, n int, seconds float64) {
	at := 0
	for i, c := range cells {
		for _, v := range order(n + i) {
			if !r.measures(c, v) {
				continue
			}
			s, err := r.measure(c, v, seconds)
			if err != nil {
				r.note("%s, %s: %v; tried again", v, strings.TrimSpace(c.workload+" "+fmt.Sprintf(c.line, seconds)), err)
				s, err = r.measure(c, v, seconds)
			}
			if err != nil {
				continue
			}
			for m := range c.metrics {
				rows[at+m].add(n, v, s)
			}
		}
		at += len(c.metrics)
	}
}

func order(n int) []variant {
	var out []variant
	for v := range variants {
		out = append(out, v)
	}
	if n%2 == 1 {
		slices.Reverse(out)
	}
	return out
}
