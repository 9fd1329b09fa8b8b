package report

import (
	"bytes"
	"cmp"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/graphs"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Batch is a sequence of kernels that a thread submits again and again: the replays of a graph, say, or the
// steps of a model.
type Batch struct {
	PID      int64   `json:"pid"`
	Thread   int64   `json:"thread"`
	Batches  int64   `json:"batches"`
	Kernels  int64   `json:"kernels"`    // of a batch
	First    string  `json:"first"`      // the name of its first kernel
	Percent  float64 `json:"percent"`    // of the thread's kernels that are in batches
	P50NS    int64   `json:"p50_ns"`     // from the start of a batch's first kernel to the end of its last
	GapP50NS int64   `json:"gap_p50_ns"` // from there to the start of the next batch
}

// readBatches finds recurring batches. With HIP's calls the report has the graphs.
func (r *Report) readBatches(tr *traceread.Trace, window traceread.Span) error {
	if _, recorded := r.Kinds[ring.KindHIPRuntimeAPI.String()]; recorded {
		return nil
	}
	all, err := graphs.Batches(background, tr, window)
	if err != nil {
		return fmt.Errorf("recurring batches: %w", err)
	}
	for i := range all {
		b := &all[i]
		one := Batch{Batches: b.Batches, Kernels: b.Kernels, Percent: b.Percent, P50NS: b.P50NS, GapP50NS: b.GapP50NS}
		if s := tr.Session(b.Session); s != nil {
			one.PID = s.Process.ID.PID
		}
		err := cmp.Or(
			absent(tr.DB.QueryRow("SELECT tid FROM rtl_thread WHERE id = ?", b.Thread).Scan(&one.Thread)),
			absent(tr.DB.QueryRow("SELECT n.string FROM rtl_launch l JOIN rocpd_string n ON n.id = l.name_id WHERE l.id = ?", b.First).Scan(&one.First)))
		if err != nil {
			return err
		}
		one.First = traceread.Cut(one.First, traceread.LongestName)
		r.Batches = append(r.Batches, one)
	}
	return nil
}

// absent returns nil for the error that a row does not exist.
func absent(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// batchesShown is how many threads' batches the text has.
const batchesShown = 8

func (r *Report) writeBatches(b *bytes.Buffer, fullNames bool) {
	if len(r.Batches) == 0 {
		return
	}
	line(b, "Recurring batches", "of kernels, by thread")
	for _, one := range r.Batches[:min(len(r.Batches), batchesShown)] {
		line(b, "", "thread %d: %s of %s (%s of its kernels), p50 %s, p50 of the gap between them %s; first kernel: %s", one.Thread,
			humanize.Things(one.Batches, "batch"), humanize.Things(one.Kernels, "kernel"), shareText(one.Percent), duration(one.P50NS), duration(one.GapP50NS),
			kernelName(one.First, fullNames))
	}
	if n := len(r.Batches) - batchesShown; n > 0 {
		line(b, "", "and %s with recurring batches", humanize.Things(n, "thread"))
	}
}
