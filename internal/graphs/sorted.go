package graphs

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// sortedSteps is how many steps inFiles passes on at a time, at most.
const sortedSteps = 1024

// inFiles has SQLite sort the steps in temporary files.
func inFiles(ctx context.Context, tr *traceread.Trace, calls bool, visit Visitor) error {
	f, columns := &functions{}, kernelColumns
	if calls {
		var err error
		if f, err = functionsOf(ctx, tr); err != nil {
			return err
		}
		columns = f.columns()
	}
	c, err := newContexts(tr)
	if err != nil {
		return err
	}
	defer c.query.Close()
	var last, id int64
	var isKernel bool
	values := make([]sql.NullInt64, len(columns))
	into, v := []any{&id, &isKernel}, make([]int64, 1+len(columns))
	for i := range values {
		into = append(into, &values[i])
	}
	o := &order{visit: visit, threads: map[int64]*thread{}}
	err = tr.Each(ctx, func(r traceread.Row) error {
		if err := r.Scan(into...); err != nil {
			return err
		}
		for i, one := range values {
			if v[i+1] = one.Int64; !one.Valid {
				v[i+1] = tracedb.Null
			}
		}
		if id != last || o.pending >= sortedSteps {
			if err := o.pass(0); err != nil {
				return err
			}
			clear(o.threads)
			last = id
		}
		step := f.step
		if isKernel {
			step = c.step
		}
		session, _, s, valid, err := step(v)
		if err != nil || !valid {
			return err
		}
		return o.add(session, id, &s)
	}, sortedQuery(tr.MostRows, calls, columns))
	if err != nil {
		return err
	}
	return o.pass(0)
}

// sortedQuery selects thread, whether it is a kernel, and its columns. Pages that refer to each other in a
// cycle yield endless rows. The OFFSET keeps SQLite from moving the LIMIT outwards.
func sortedQuery(most int64, calls bool, columns []string) string {
	names := make([]string, len(columns))
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	kernel := make([]string, len(columns))
	for i := range kernel {
		if kernel[i] = "0 AS " + names[i]; i < len(kernelColumns) {
			kernel[i] = "e." + kernelColumns[i] + " AS " + names[i]
		}
	}
	all := fmt.Sprintf(`SELECT x.thread_id AS thread, e.start_ns - e.queued_ns AS at_ns, 1 AS kernel, %s
		FROM (SELECT * FROM rtl_execution LIMIT %d OFFSET 0) e JOIN rtl_context x ON x.id = e.context_id
		WHERE e.queued_ns IS NOT NULL AND x.thread_id IS NOT NULL`, strings.Join(kernel, ", "), most)
	if calls {
		all += fmt.Sprintf(` UNION ALL SELECT thread_id, start_ns, 0, %s FROM (SELECT * FROM rtl_call LIMIT %d OFFSET 0)
			WHERE thread_id IS NOT NULL`, strings.Join(columns, ", "), most)
	}
	return fmt.Sprintf("SELECT thread, kernel, %s FROM (%s) ORDER BY thread, at_ns, kernel", strings.Join(names, ", "), all)
}
