package export

import (
	"context"
	"slices"
	"strconv"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// KindResult is the number of exported records of a further kind.
type KindResult struct {
	Kind    *kind.Kind
	Written int64
	LeftOut int64 // impossible times, or no valid session
}

// eachOf calls visit for each event of a kind in the exported sessions.
func (e *export) eachOf(k *kind.Kind, wanted func(*traceread.Session) bool, visit func(*kind.Event) error) error {
	if is, err := k.IsIn(e.trace.Trace); err != nil || !is {
		return err
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	r, links := e.result.of(k), e.trace.itemLinks(ctx, k)
	leftOut, err := k.Export.Events(ctx, e.trace.Trace, func(one *kind.Event) (err error) {
		if !wanted(one.Track.Session) || !e.trace.inWindow(one.StartNS) {
			return nil
		}
		r.Written++
		if one.Call, err = links.callOf(one.ID); err != nil {
			return err
		}
		return visit(one)
	})
	r.LeftOut = leftOut
	return err
}

// of returns the result of a kind.
func (r *Result) of(k *kind.Kind) *KindResult {
	if i := slices.IndexFunc(r.Kinds, func(one *KindResult) bool { return one.Kind == k }); i >= 0 {
		return r.Kinds[i]
	}
	r.Kinds = append(r.Kinds, &KindResult{Kind: k})
	return r.Kinds[len(r.Kinds)-1]
}

// event is an event in a timeline.
type event struct {
	*kind.Event
	lane    int
	submits *links // of calls of HIP; nil: of others
	from    item   // the arrow from the call that submitted the event ends here; zero: there is none
	joins   uint64 // the number of an arrow through all events with it; 0: there is none
}

// events yields the events of all kinds, the steps and the collectives. It excludes dispatches, which are too many for a call of
// an interface each.
func (e *export) events(visit func(event) error) error {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	for i, k := range all.Kinds {
		if k.Export.Events == nil {
			continue
		}
		var submits *links
		if k == calls.HIPRuntime && e.trace.linked != nil {
			var err error
			if submits, err = e.trace.callLinks(ctx); err != nil {
				return err
			}
		}
		places, nests := newLanes[*kind.Track](), newNests[*kind.Track]()
		err := e.eachOf(k, e.trace.isExported, func(one *kind.Event) error {
			place := places.place
			if one.Track.Nested {
				place = nests.place
			}
			lane, err := place(one.Track, one.StartNS, one.EndNS)
			if err != nil {
				return err
			}
			next := event{one, lane, submits, item{}, 0}
			if one.Call != 0 {
				next.from = item{i + 1, one.ID}
			}
			return visit(next)
		})
		if err != nil {
			return err
		}
	}
	if err := e.steps(visit); err != nil {
		return err
	}
	return e.collectives(visit)
}

// levels yields the changes of the counters of all kinds.
func (e *export) levels(visit func(c *kind.Counter, atNS, bytes int64) error) error {
	for _, k := range all.Kinds {
		if k.Export.Levels == nil {
			continue
		}
		is, err := k.IsIn(e.trace.Trace)
		if err != nil {
			return err
		} else if !is {
			continue
		}
		err = k.Export.Levels(e.ctx, e.trace.Trace, func(c *kind.Counter, atNS, bytes int64) error {
			if !e.trace.isExported(c.Session) || !e.trace.inWindow(atNS) {
				return nil
			}
			return visit(c, atNS, bytes)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// kindFormats returns the formats that have a line for each event of a kind, or of several.
func kindFormats() (formats []Format) {
	for i, k := range all.Kinds {
		c := k.Export.CSV
		of := func(k *kind.Kind) bool { return c != nil && k.Export.CSV == c }
		if c == nil || slices.ContainsFunc(all.Kinds[:i], of) {
			continue
		}
		kinds := slices.DeleteFunc(slices.Clone(all.Kinds), func(k *kind.Kind) bool { return !of(k) })
		formats = append(formats, Format{c.Format, c.Suffix, c.For, kinds, func(e *export) error { return e.kindCSV(c, kinds) }, nil, nil, nil})
	}
	return formats
}

// kindCSV writes the events of each kind in the order of starts.
func (e *export) kindCSV(c *kind.CSV, kinds []*kind.Kind) error {
	var header []any
	for _, name := range c.Header {
		header = append(header, name)
	}
	correlation := slices.Index(c.Header, correlationColumn)
	line := appendCSVRow(nil, header)
	if _, err := e.w.Write(line); err != nil {
		return err
	}
	for _, k := range kinds {
		err := e.eachOf(k, e.trace.isExported, func(one *kind.Event) error {
			if correlation >= 0 && one.Call != 0 {
				one.Row[correlation] = one.Call
			}
			line = appendCSVRow(line[:0], one.Row)
			_, err := e.w.Write(line)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// correlationColumn is rocprofv3's name of the column that a row and the call that submitted it have in common.
const correlationColumn = "Correlation_Id"

// appendCSVRow appends texts, quoted, and integers.
func appendCSVRow(b []byte, row []any) []byte {
	for i, cell := range row {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := cell.(type) {
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case string:
			b = appendCSV(b, v)
		}
	}
	return append(b, '\n')
}
