package graphs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// callColumns and kernelColumns are what a step needs of a row, after its id. The words of calls follow.
var (
	callColumns   = []string{"session_id", "coalesce(thread_id, 0)", "function_id", "start_ns", "duration_ns", "result"}
	kernelColumns = []string{"context_id", "start_ns", "duration_ns", "queued_ns", "packet_index"}
)

// Streams reports whether a trace has the streams of calls: an older one has not.
func Streams(tr *traceread.Trace) (bool, error) {
	return tracedb.HasColumn(tr.DB, "rtl_function", "stream_word")
}

// open opens the sources of steps.
func open(ctx context.Context, tr *traceread.Trace, calls bool) (sources []*source, err error) {
	if calls {
		functions, err := functionsOf(ctx, tr)
		if err != nil {
			return nil, err
		}
		blocks, err := tracedb.ReadBlocks(tr.DB, "rtl_call", functions.columns()...)
		if err != nil {
			return nil, err
		}
		sources = append(sources, &source{blocks: blocks, step: functions.step})
	}
	c, err := newContexts(tr)
	if err == nil {
		var blocks *tracedb.Blocks
		if blocks, err = tracedb.ReadBlocks(tr.DB, "rtl_execution", kernelColumns...); err == nil {
			return append(sources, &source{blocks: blocks, step: c.step, release: c.query.Close}), nil
		}
	}
	for _, s := range sources {
		s.close()
	}
	return nil, err
}

// functions are the functions of HIP's runtime API in a trace.
type functions struct {
	byRow map[int64]streamOf
	words []int64 // which of the arguments' words a step needs; the first is word 0
}

// streamOf says which stream a call of a function uses.
type streamOf struct {
	word   int   // index of functions.words; -1: no argument is a stream
	handle int64 // of the stream that it uses if the word is 0, or without a word; Null: none
}

// mostWords is the most words of a call's arguments.
const mostWords = 11

func functionsOf(ctx context.Context, tr *traceread.Trace) (*functions, error) {
	f := &functions{byRow: map[int64]streamOf{}, words: []int64{0}}
	err := tr.Define(ctx, func(r traceread.Row) error {
		var row, word int64
		s := streamOf{word: -1}
		if err := r.Scan(&row, &word, &s.handle); err != nil {
			return err
		}
		if word >= 0 && word < mostWords {
			if s.word = slices.Index(f.words, word); s.word < 0 {
				s.word = len(f.words)
				f.words = append(f.words, word)
			}
		}
		f.byRow[row] = s
		return nil
	}, `SELECT id, coalesce(stream_word, -1), coalesce(default_stream, ?) FROM rtl_function
		WHERE api_id = (SELECT id FROM rocpd_string WHERE string = 'hip-runtime-api')`, int64(tracedb.Null))
	return f, err
}

// columns returns the columns of rtl_call that step needs.
func (f *functions) columns() []string {
	all := slices.Clone(callColumns)
	for _, word := range f.words {
		all = append(all, fmt.Sprintf("rtl_word(arguments, %d)", word))
	}
	return all
}

// legacyStream is hipStreamLegacy, another name of the default stream.
const legacyStream = 1

func (f *functions) step(v []int64) (session, id int64, s Step, valid bool, err error) {
	of, known := f.byRow[v[3]]
	if !known || v[2] == 0 || !traceread.Possible(v[4], v[5]) {
		return 0, 0, s, false, nil
	}
	words := v[1+len(callColumns):]
	stream := of.handle
	if stream != tracedb.Null && of.word >= 0 {
		switch handle := words[of.word]; handle {
		case 0, legacyStream:
		default:
			stream = handle // Null: it is not recorded
		}
	}
	return v[1], v[2], Step{AtNS: v[4], DurationNS: v[5], IsCall: true, Function: v[3], Failed: v[6] != 0, Word: words[0], Stream: stream}, true, nil
}

// contexts finds what the dispatches of a context share.
type contexts struct {
	known map[int64]shared
	query *sql.Stmt
}

type shared struct{ session, thread, launch, name, queue int64 }

// mostContexts limits the contexts in memory. At the limit all are dropped, and read again when needed.
const mostContexts = 1 << 16

func newContexts(tr *traceread.Trace) (*contexts, error) {
	query, err := tr.DB.Prepare(`SELECT l.session_id, coalesce(x.thread_id, 0), l.id, l.name_id, x.queue_id FROM rtl_context x
		JOIN rtl_launch l ON l.id = x.launch_id WHERE x.id = ?`)
	return &contexts{known: map[int64]shared{}, query: query}, err
}

// find returns a context; thread 0: the file does not have it, or its thread is not known.
func (c *contexts) find(id int64) (s shared, err error) {
	s, known := c.known[id]
	if known {
		return s, nil
	}
	err = c.query.QueryRow(id).Scan(&s.session, &s.thread, &s.launch, &s.name, &s.queue)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("%w: %w", traceread.ErrImpossible, err)
	}
	if len(c.known) >= mostContexts {
		clear(c.known)
	}
	c.known[id] = s
	return s, nil
}

func (c *contexts) step(v []int64) (session, id int64, s Step, valid bool, err error) {
	if v[4] == tracedb.Null || !traceread.Possible(v[2], v[3]) {
		return 0, 0, s, false, nil
	}
	at, known := traceread.Submit(v[2], v[4])
	if !known {
		return 0, 0, s, false, nil
	}
	x, err := c.find(v[1])
	if err != nil || x.thread == 0 {
		return 0, 0, s, false, err
	}
	return x.session, x.thread, Step{AtNS: at, StartNS: v[2], DurationNS: v[3], Launch: x.launch, Name: x.name, Queue: x.queue, Packet: v[5]}, true, nil
}
