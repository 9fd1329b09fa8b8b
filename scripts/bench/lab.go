package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A lab holds the processes of one repetition. They start when first needed
// and end with it, so that no layout of memory decides all values of a row.
type lab struct {
	build, scratch, peer, payload string

	pool  map[string]*process
	notes []string
	count int
}

func key(c cell, v variant) string { return c.workload + " " + v.home() }

func (l *lab) process(c cell, v variant) (*process, error) {
	if p := l.pool[key(c, v)]; p != nil {
		return p, nil
	}
	p, err := start(filepath.Join(l.build, "workloads", c.workload), c.flags, l.environment(v))
	if err != nil {
		return nil, err
	}
	l.pool[key(c, v)] = p
	if v == detached || v == attached {
		return p, l.attachOnce(p)
	}
	return p, nil
}

// attachOnce: the first attach loads the payload. A short recording without
// dispatches ends with a complaint, which is no concern of ours.
func (l *lab) attachOnce(p *process) error {
	rec, err := l.record(p)
	if err != nil {
		return err
	}
	_, _ = rec.stop()
	_ = os.Remove(rec.trace) // there is none without dispatches
	return nil
}

// discard ends a process and says how it went.
func (l *lab) discard(c cell, v variant) string {
	p := l.pool[key(c, v)]
	delete(l.pool, key(c, v))
	return p.end()
}

func (l *lab) close() {
	for k, p := range l.pool {
		p.end()
		delete(l.pool, k)
	}
}

func (l *lab) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// repeat fills the rows and returns how often.
func repeat(l *lab, cells []cell, rows []*row, o options) int {
	began, longest := time.Now(), time.Duration(0)
	for n := range o.pairs {
		if n > 0 && time.Since(began)+longest > o.limit {
			l.note("stopped after %d of %d repetitions: the time is over", n, o.pairs)
			return n
		}
		fmt.Fprintf(os.Stderr, "bench: repetition %d of %d\n", n+1, o.pairs)
		from := time.Now()
		repetition(l, cells, rows, n, o.seconds)
		l.close()
		longest = max(longest, time.Since(from))
	}
	return o.pairs
}

// repetition measures each cell once, its variants in an order that turns
// around from one repetition to the next.
func repetition(l *lab, cells []cell, rows []*row, n int, seconds float64) {
	at := 0
	for i, c := range cells {
		for _, v := range order(n + i) {
			if !l.has(c, v) {
				continue
			}
			s, err := l.measure(c, v, seconds)
			if err != nil {
				l.note("%s, %s: %v; tried again", v, strings.TrimSpace(c.workload+" "+fmt.Sprintf(c.line, seconds)), err)
				s, err = l.measure(c, v, seconds)
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
