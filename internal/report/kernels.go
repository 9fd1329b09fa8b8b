package report

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Limits of different kernel names, and of the bytes of group names.
const (
	mostKernels   = 1 << 20
	mostNameBytes = 16 << 20
)

// kernel sums up the dispatches of one kernel name.
type kernel struct {
	number       int32 // in the list
	nameID       int64 // in rocpd_string
	collective   bool
	calls        int64
	totalNS      int64
	minNS, maxNS int64
}

func (k *kernel) add(ns int64) {
	if k.calls == 0 || ns < k.minNS {
		k.minNS = ns
	}
	k.calls++
	k.totalNS = traceread.Sum(k.totalNS, ns)
	k.maxNS = max(k.maxNS, ns)
}

// kernels has the kernels by the ids of their names.
type kernels struct {
	db   *sql.DB
	byID map[int64]*kernel
	list []*kernel

	isCollective func(nameID int64) bool // nil: none is
}

func newKernels(db *sql.DB) *kernels { return &kernels{db: db, byID: map[int64]*kernel{}} }

func (ks *kernels) get(nameID int64) (*kernel, error) {
	if k := ks.byID[nameID]; k != nil {
		return k, nil
	}
	if len(ks.byID) == mostKernels {
		return nil, fmt.Errorf("over %d kernels: %w", mostKernels, traceread.ErrImpossible)
	}
	k := &kernel{number: int32(len(ks.list)), nameID: nameID}
	k.collective = ks.isCollective != nil && ks.isCollective(nameID)
	ks.list = append(ks.list, k)
	ks.byID[nameID] = k
	return k, nil
}

// called returns the kernels with calls, the largest total time first, and the sum of their
// times.
func (ks *kernels) called() (all []*kernel, totalNS int64) {
	for _, k := range ks.list {
		if k.calls > 0 {
			all = append(all, k)
			totalNS = traceread.Sum(totalNS, k.totalNS)
		}
	}
	slices.SortFunc(all, func(a, b *kernel) int {
		return cmp.Or(cmp.Compare(b.totalNS, a.totalNS), cmp.Compare(a.nameID, b.nameID))
	})
	return all, totalNS
}

const unnamed = "(no name in this trace)"

// name reads a kernel's name.
func (ks *kernels) name(k *kernel) (string, error) {
	var name string
	err := ks.db.QueryRow("SELECT substr(string, 1, ?) FROM rocpd_string WHERE id = ?", traceread.LongestName, k.nameID).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return unnamed, nil
	}
	return name, err
}

// numbered returns the name of the kernel with a number, which may be filteredKernel.
func (ks *kernels) numbered(number int32) (string, error) {
	if number == filteredKernel {
		return filteredName, nil
	}
	return ks.name(ks.list[number])
}

// figures returns the report's values for a kernel or a group.
func (k *kernel) figures(name string, allNS int64) Kernel {
	return Kernel{
		Name: name, Calls: k.calls, TotalNS: k.totalNS, AvgNS: k.totalNS / max(k.calls, 1), MinNS: k.minNS, MaxNS: k.maxNS,
		Percent: percent(k.totalNS, allNS),
	}
}

// percent returns a share in percent, rounded to two decimals.
func percent(part, whole int64) float64 {
	return math.Round(1e4*float64(part)/float64(max(whole, 1))) / 100
}

// top returns the first most kernels, 0: all, and the number of all.
func (ks *kernels) top(limit int) ([]Kernel, int64, error) {
	called, totalNS := ks.called()
	top := []Kernel{}
	for _, k := range called[:atMost(limit, len(called))] {
		name, err := ks.name(k)
		if err != nil {
			return nil, 0, err
		}
		top = append(top, k.figures(name, totalNS))
	}
	return top, int64(len(called)), nil
}

func atMost(limit, n int) int {
	if limit > 0 {
		return min(limit, n)
	}
	return n
}

// other is the group of the kernels beyond the limits.
const other = "(other kernels)"

// groups groups the kernels whose names differ only in template arguments and parameters.
func (ks *kernels) groups(limit int) ([]Group, int64, error) {
	called, totalNS := ks.called()
	byName := map[string]*Group{}
	var all []*Group
	bytes := 0
	for _, k := range called {
		name, err := ks.name(k)
		if err != nil {
			return nil, 0, err
		}
		if name = base(name); byName[name] == nil {
			if bytes += len(name); bytes > mostNameBytes {
				name = other
			}
		}
		g := byName[name]
		if g == nil {
			g = &Group{Kernel: Kernel{Name: strings.Clone(name), MinNS: math.MaxInt64}}
			byName[g.Name] = g
			all = append(all, g)
		}
		g.add(k)
	}
	slices.SortStableFunc(all, func(a, b *Group) int { return cmp.Compare(b.TotalNS, a.TotalNS) })
	groups := []Group{}
	for _, g := range all[:atMost(limit, len(all))] {
		g.AvgNS, g.Percent = g.TotalNS/g.Calls, percent(g.TotalNS, totalNS)
		groups = append(groups, *g)
	}
	return groups, int64(len(all)), nil
}

func (g *Group) add(k *kernel) {
	g.Variants++
	g.Calls += k.calls
	g.TotalNS = traceread.Sum(g.TotalNS, k.totalNS)
	g.MinNS, g.MaxNS = min(g.MinNS, k.minNS), max(g.MaxNS, k.maxNS)
}

// base returns a demangled name without result, parameters and template arguments. It
// returns a name with unbalanced brackets unchanged.
func base(name string) string {
	name = brief(name)
	if strings.Contains(name, "operator") || strings.Contains(name, "->") {
		return name // its brackets may be none
	}
	var b strings.Builder
	depth := 0
	for _, r := range name {
		switch r {
		case '<':
			depth++
		case '>':
			if depth--; depth < 0 {
				return name
			}
		default:
			if depth == 0 {
				b.WriteRune(r)
			}
		}
	}
	if depth != 0 || b.Len() == 0 {
		return name
	}
	return b.String()
}
