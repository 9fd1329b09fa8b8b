package main

import (
	"encoding/json"
	"math"
	"slices"
)

// row is one metric in all variants; the values of one repetition are a pair.
type row struct {
	Group, Name string
	get         func(sample) float64
	scale       float64
	in          []variant
	mode        string
	pairs       []map[variant]float64
	recorded    []float64
}

func rowsOf(cells []cell) []*row {
	var rows []*row
	for _, c := range cells {
		for _, m := range c.metrics {
			if m.scale == 0 {
				m.scale = 1
			}
			rows = append(rows, &row{Group: m.group, Name: m.name, get: m.get, scale: m.scale, mode: c.mode, in: m.in})
		}
	}
	return rows
}

func (r *row) add(repetition int, v variant, s sample) {
	for len(r.pairs) <= repetition {
		r.pairs = append(r.pairs, map[variant]float64{})
	}
	n := r.get(s) * r.scale
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return
	}
	r.pairs[repetition][v] = n
	if !math.IsNaN(s.recorded) {
		r.recorded = append(r.recorded, s.recorded)
	}
}

func (r *row) values(v variant) []float64 {
	var out []float64
	for _, p := range r.pairs {
		if n, ok := p[v]; ok {
			out = append(out, n)
		}
	}
	return out
}

// paired returns f(base, v) for every repetition that has both values.
func (r *row) paired(v variant, f func(a, b float64) float64) []float64 {
	var out []float64
	for _, p := range r.pairs {
		a, hasA := p[v.base()]
		b, hasB := p[v]
		if hasA && hasB {
			out = append(out, f(a, b))
		}
	}
	return out
}

func (r *row) ratios(v variant) []float64 {
	return r.paired(v, func(a, b float64) float64 { return b / a })
}

func (r *row) differences(v variant) []float64 {
	return r.paired(v, func(a, b float64) float64 { return b - a })
}

// median returns NaN if there are no values.
func median(values []float64) float64 { return quantile(values, 0.5) }

func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + (s[high]-s[low])*(at-float64(low))
}

// MarshalJSON writes the medians and all values.
func (r *row) MarshalJSON() ([]byte, error) {
	type cell struct {
		Median float64   `json:"median"`
		Ratio  float64   `json:"ratio_to_base"` // to untraced, of "off" to detached
		Pairs  int       `json:"pairs"`
		Values []float64 `json:"values"`
	}
	cells := map[string]cell{}
	for v := range variants {
		if values, ratios := r.values(v), r.ratios(v); len(values) > 0 && len(ratios) > 0 {
			cells[v.String()] = cell{median(values), median(ratios), len(ratios), values}
		}
	}
	return json.Marshal(map[string]any{"group": r.Group, "name": r.Name, "variants": cells, "recorded": r.recorded})
}
