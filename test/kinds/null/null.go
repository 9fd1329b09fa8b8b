// Package null is the tool's half of the kind "null", which only the tests' payload and the
// tool built with -tags rtlfault have. It records calls of hsa_system_get_info, and shows
// what a kind needs (docs/adding-a-kind.md).
package null

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

//go:generate go run ../../../internal/ring/genabi -test

//go:embed schema.sql
var schema string

// Kind is the kind.
var Kind = &kind.Kind{
	ID:         ring.KindNull,
	Thing:      "null call",
	Flag:       "null-trace",
	Usage:      "record calls of hsa_system_get_info",
	Schema:     schema,
	Tables:     []string{"rtl_null_call"},
	NewDecoder: func(s kind.Session) kind.Decoder { return &decoder{session: s} },
	Read:       read,
	Export:     kind.Export{Events: events},
}

// A decoder takes the calls of one session.
type decoder struct {
	session kind.Session
	calls   []call
	arrived uint64
}

// Decode takes a call.
func (d *decoder) Decode(r *ring.Record) error {
	c := *ring.As[call](r)
	if r.Type() != ring.Type(typeCall) || r.Lines() != 1 || !kind.SoundTime(c.TimeNS) {
		d.session.Refuse()
		return nil
	}
	d.calls = append(d.calls, c)
	d.arrived++
	return nil
}

var table = tracedb.Table{Name: "rtl_null_call", Columns: []string{"thread_id", "time_ns", "attribute"}}

// Flush writes the calls gathered so far.
func (d *decoder) Flush() error {
	calls := d.calls
	d.calls = nil
	if len(calls) == 0 {
		return nil
	}
	return d.session.Write(len(calls), func(w tracedb.KindWriter) error {
		for _, c := range calls {
			thread, err := w.Thread(c.TID)
			if err != nil {
				return err
			}
			if err := w.Add(&table, thread, int64(c.TimeNS), int64(c.AttributeID)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Arrived returns how many calls came so far; all of them have times.
func (d *decoder) Arrived() (timed, untimed uint64) { return d.arrived, 0 }

// Report is what a report says of calls.
type Report struct {
	Calls int64 `json:"calls"`
}

func read(r *kind.Reading) (*kind.Section, error) {
	var all Report
	err := r.Trace.DB.QueryRowContext(r.Ctx, "SELECT count(*) FROM rtl_null_call WHERE time_ns >= ? AND time_ns < ?",
		r.Window.BeginNS, r.Window.EndNS).Scan(&all.Calls)
	if err != nil || all.Calls == 0 {
		return nil, err
	}
	lines := []kind.Line{{Label: "Null calls", Text: fmt.Sprint(humanize.Count(all.Calls), r.Where)}}
	return &kind.Section{Value: &all, Lines: lines, Timed: all.Calls}, nil
}

func events(ctx context.Context, tr *traceread.Trace, visit func(*kind.Event) error) (leftOut int64, err error) {
	tracks := map[*traceread.Session]*kind.Track{}
	err = tr.Each(ctx, func(r traceread.Row) error {
		var id, of, tid, timeNS int64
		if err := r.Scan(&id, &of, &tid, &timeNS); err != nil {
			return err
		}
		s := tr.Session(of)
		if s == nil || !traceread.Possible(timeNS, 0) {
			leftOut++
			return nil
		}
		if tracks[s] == nil {
			tracks[s] = &kind.Track{Kind: "null", Session: s, Name: "null calls", About: "calls of hsa_system_get_info", Rank: 5}
		}
		return visit(&kind.Event{
			Track: tracks[s], ID: id, StartNS: timeNS, EndNS: timeNS, Name: "hsa_system_get_info", Category: "null", TID: tid,
		})
	}, `SELECT c.id, c.session_id, coalesce(t.tid, 0), c.time_ns FROM rtl_null_call c
		LEFT JOIN rtl_thread t ON t.id = c.thread_id ORDER BY c.time_ns, c.id`)
	return leftOut, err
}
