package report

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Common is the time in which all processes of a recording were recorded. How
// busy GPUs were is said of this time; everything else, of the whole trace.
type Common struct {
	StartNS int64 `json:"start_ns"`
	EndNS   int64 `json:"end_ns,omitempty"` // 0: the recorder was killed
	Inside  int64 `json:"inside"`           // dispatches that began and ended in it
	Outside int64 `json:"outside"`
}

// Process is one of those that were to be recorded, or that came too late for it.
type Process struct {
	PID        int64           `json:"pid"`
	Command    string          `json:"command"`
	Rank       *int64          `json:"rank,omitempty"`
	Fate       tracedb.Outcome `json:"fate"`
	ExitCode   int64           `json:"exit_code"` // that its recording alone would have ended with
	Text       string          `json:"text,omitempty"`
	Dispatches int64           `json:"dispatches"`     // in all of its sessions
	GPUs       []int64         `json:"gpus,omitempty"` // as this trace numbers them
	untilNS    int64           // it was detached from; 0: it never was
}

// readProcesses finds nothing in the trace of one process. Of one that was recorded
// more than once it has what became of it last, and all of its dispatches.
func (s *Summary) readProcesses(db *sql.DB) error {
	var tables int
	err := db.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('rtl_target', 'rtl_common')").Scan(&tables)
	if err != nil || tables < 2 {
		return err // older traces have no such tables
	}
	if err := s.readCommon(db); err != nil {
		return err
	}
	outcome, detail, err := tracedb.TargetColumns(db)
	if err != nil {
		return err
	}
	return each(db, func(r *sql.Rows) error {
		var (
			p    Process
			gpus string
		)
		err := r.Scan(&p.PID, &p.Command, &p.Rank, &p.Fate, &p.ExitCode, &p.Text, &p.Dispatches, &gpus, &p.untilNS)
		for one := range strings.SplitSeq(gpus, ",") {
			if id, err := strconv.ParseInt(one, 10, 64); err == nil {
				p.GPUs = append(p.GPUs, id)
			}
		}
		slices.Sort(p.GPUs)
		s.Processes = append(s.Processes, p)
		return err
	}, `SELECT t.pid, t.command, t.rank, t.`+outcome+`, coalesce(t.exit_code, 0), t.`+detail+`,
			CAST(total(v.timed) AS INTEGER), coalesce(group_concat(DISTINCT a.gpu_id), ''),
			coalesce(max(s.detached_ns), 0)
		FROM (SELECT max(id) AS id FROM rtl_target GROUP BY pid, coalesce(start_ticks, -id)) latest
		JOIN rtl_target t ON t.id = latest.id LEFT JOIN rtl_session s ON s.pid = t.pid AND s.start_ticks = t.start_ticks
		LEFT JOIN rtl_queue q ON q.session_id = s.id LEFT JOIN rtl_agent a ON a.id = q.agent_id
		LEFT JOIN rtl_coverage v ON v.queue_id = q.id
		GROUP BY t.id ORDER BY t.id`)
}

// readCommon reads the common window, and says of it how busy the GPUs were.
func (s *Summary) readCommon(db *sql.DB) error {
	var c Common
	// A file to which several recordings were appended has no window that all share.
	err := db.QueryRow("SELECT max(start_ns), coalesce(max(end_ns), 0) FROM rtl_common HAVING count(*) = 1").Scan(&c.StartNS, &c.EndNS)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.EndNS > 0 {
		if apart, err := recordedApart(db, c.EndNS); err != nil || apart > 0 {
			return err
		}
	}
	s.Common = &c
	return nil
}

// recordedApart counts the sessions that were not recorded together with the
// others, or only after them: those of one process, appended.
func recordedApart(db *sql.DB, endNS int64) (n int, err error) {
	err = db.QueryRow(`SELECT count(*) FROM rtl_session WHERE coalesce(armed_ns, begun_ns) >= ?
		OR (pid, start_ticks) NOT IN (SELECT pid, start_ticks FROM rtl_target WHERE start_ticks IS NOT NULL)`, endNS).Scan(&n)
	return n, err
}

// cut is the window that all processes share, where there is one: how busy GPUs
// were is said of it.
func (s *Summary) cut() (span, bool) {
	if c := s.Common; c != nil && c.EndNS > c.StartNS {
		return span{c.StartNS, c.EndNS}, true
	}
	return always, false
}

// writeProcesses is about several; of one, its sessions say all.
func (s *Summary) writeProcesses(b *bytes.Buffer) {
	if _, cut := s.cut(); cut {
		c := s.Common
		line(b, "Window", "%s common to %s; %s of %s kernels lie outside of it, and do not count as GPU busy",
			duration(c.EndNS-c.StartNS), s.sharing(), humanize.Count(c.Outside), humanize.Count(c.Inside+c.Outside))
	}
	label := "Processes"
	var passed []string
	for _, p := range s.Processes {
		if p.Fate == tracedb.OutcomePassedOver {
			passed = append(passed, sanitize.Text(p.Command))
			continue
		}
		line(b, label, "%s", p.text())
		label = ""
	}
	if len(passed) > 0 {
		line(b, "Without a GPU", "%s", strings.Join(grouped(passed), ", "))
	}
}

// sharing says how many were recorded from the common window's begin to its end.
func (s *Summary) sharing() string {
	meant, shared := 0, 0
	for _, p := range s.Processes {
		if p.Fate == tracedb.OutcomePassedOver || p.Fate == tracedb.OutcomeLateWorker {
			continue
		}
		if meant++; p.untilNS >= s.Common.EndNS {
			shared++
		}
	}
	if shared == meant {
		return "all " + humanize.Things(meant, "process")
	}
	return humanize.Count(shared) + " of " + humanize.Things(meant, "process")
}

// grouped counts equal names; the first few are named.
func grouped(names []string) []string {
	const most = 8
	counts := map[string]int{}
	var list []string
	for _, n := range names {
		if counts[n]++; counts[n] == 1 {
			list = append(list, n)
		}
	}
	more := len(list) - most
	list = list[:min(most, len(list))]
	for i, n := range list {
		if counts[n] > 1 {
			list[i] = fmt.Sprintf("%s ×%d", n, counts[n])
		}
	}
	if more > 0 {
		list = append(list, humanize.Things(more, "name")+" more")
	}
	return list
}

func (p Process) text() string {
	const nameWidth = 20
	rank := ""
	if p.Rank != nil {
		rank = fmt.Sprintf("rank %d", *p.Rank)
	}
	text := fmt.Sprintf("%-8d %-8s %-*s %-9s", p.PID, rank, nameWidth, shorten(sanitize.Text(p.Command), nameWidth), sanitize.Text(string(p.Fate)))
	if p.Dispatches > 0 || p.Fate == tracedb.OutcomeRecorded {
		text += fmt.Sprintf(" %17s", humanize.Things(p.Dispatches, "dispatch"))
	}
	if len(p.GPUs) > 0 {
		text += "  GPU " + strings.Trim(strings.ReplaceAll(fmt.Sprint(p.GPUs), " ", ","), "[]")
	}
	if p.Text != "" {
		text += "  " + sanitize.Text(p.Text)
	}
	return strings.TrimRight(text, " ")
}
