package session

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

// A Diagnosis says whether an attach would work, and what it rests on. Its JSON
// form is stable (docs/json.md).
type Diagnosis struct {
	Version  string           `json:"version,omitempty"` // of this tool; not of workers
	PID      int              `json:"pid,omitempty"`     // none: of the machine
	Command  string           `json:"command,omitempty"`
	Rank     *int             `json:"rank,omitempty"`
	Verdict  Result           `json:"verdict"` // ok, unclear or fails
	ExitCode failure.ExitCode `json:"exit_code"`
	Cause    string           `json:"cause,omitempty"`
	Fix      string           `json:"fix,omitempty"`
	Checks   []Check          `json:"checks"`

	Workers    []*Diagnosis `json:"workers,omitempty"` // that would be recorded together
	PassedOver string       `json:"passed_over,omitempty"`
}

// Diagnose looks at everything that could stand in the way of an attach to what s
// selects, or to any process if that is nothing, and touches nothing. With
// readFilters a thread with seccomp filters is stopped for a moment to read them.
func Diagnose(o Options, s discover.Selection, readFilters bool) (*Diagnosis, error) {
	if len(s.PIDs) > 0 {
		o.PID = s.PIDs[0]
	}
	d, err := watchdog.Do(o.PID, func() (*Diagnosis, error) {
		if len(s.PIDs) == 0 && s.Name == nil {
			return diagnoseMachine(o), nil
		}
		c, err := s.Resolve()
		switch {
		case err != nil:
			return nil, err
		case !c.Alone(s):
			return diagnoseAll(o, c, readFilters), nil
		}
		d := diagnose(o, steps, care{readFilters, resident.HeartbeatTimeout()})
		d.machine(true)
		return d, nil
	})
	if err != nil {
		return nil, failure.Explain("look for", o.PID, err, failure.Untouched)
	}
	d.Version = o.Version
	return d, nil
}

func diagnoseMachine(o Options) *Diagnosis {
	d := &Diagnosis{}
	d.common(o)
	d.machine(false)
	d.judge(ofMachine)
	return d
}

// diagnose makes the steps of an attach to one process.
func diagnose(o Options, steps []step, with care) *Diagnosis {
	d := &Diagnosis{PID: o.PID}
	e := &examination{approach: approach{o: o}, d: d, steps: steps, care: with}
	defer e.close()
	e.run()
	d.judge(ofProcess)
	if e.ready() {
		d.Rank = discover.RankOf(e.target)
	}
	return d
}

// diagnoseAll is about several processes that would be recorded together.
func diagnoseAll(o Options, c *discover.Choice, readFilters bool) *Diagnosis {
	o.PID = c.First
	d := &Diagnosis{PID: c.First, Command: discover.Glance(c.First).Command, PassedOver: discover.Names(c.Passed)}
	d.common(o)
	for _, one := range c.Targets {
		o.PID = one.PID
		w := diagnose(o, processSteps(), care{readFilters, resident.HeartbeatTimeout()})
		d.Workers = append(d.Workers, w)
	}
	if d.judge(ofMachine); d.Verdict != Fails {
		d.judgeWorkers()
	}
	d.machine(true)
	return d
}

// judge takes the verdict from the first check of that part that fails, or else
// from the first unclear one.
func (d *Diagnosis) judge(part string) {
	d.Verdict, d.ExitCode = Fine, failure.OK
	for _, c := range d.Checks {
		if c.Part != part || c.Result != Fails && (c.Result != Unclear || d.Verdict == Unclear) {
			continue
		}
		d.Verdict, d.ExitCode, d.Cause, d.Fix = c.Result, c.ExitCode, c.Cause, c.Fix
		if c.Result == Fails {
			return
		}
	}
}

// judgeWorkers takes the verdict from the first worker that fails, or else from the
// first unclear one; and the code from all, as a recording of them does.
func (d *Diagnosis) judgeWorkers() {
	var results []Result
	var codes []failure.ExitCode
	for _, w := range d.Workers {
		results, codes = append(results, w.Verdict), append(codes, w.ExitCode)
	}
	d.Verdict, d.ExitCode = foretell(results, codes)
	for _, w := range d.Workers {
		if w.Verdict == d.Verdict {
			d.Cause, d.Fix = w.Cause, w.Fix
			return
		}
	}
}

// foretell is what a recording of all comes to.
func foretell(results []Result, codes []failure.ExitCode) (Result, failure.ExitCode) {
	count := map[Result]int{}
	for _, r := range results {
		count[r]++
	}
	switch code := failure.CombineExitCodes(codes); {
	case count[Fails] == len(results) && code == failure.SomeFailed:
		return Fails, failure.Failed
	case count[Fails] == len(results):
		return Fails, code
	case count[Fails] > 0:
		return Fails, failure.SomeFailed
	case count[Unclear] > 0:
		return Unclear, failure.Failed
	}
	return Fine, failure.OK
}

// Told says in a line what the verdict is.
func (d *Diagnosis) Told() string {
	switch {
	case d.Verdict == Unclear:
		return "an attach may work or not: " + d.Cause
	case d.Verdict == Fails && d.ExitCode == failure.SomeFailed:
		return fmt.Sprintf("an attach would record some of the %d processes, and end with exit code %d: %s", len(d.Workers), d.ExitCode, d.Cause)
	case d.Verdict == Fails:
		return fmt.Sprintf("an attach would fail with exit code %d: %s", d.ExitCode, d.Cause)
	case len(d.Workers) > 0:
		return fmt.Sprintf("an attach to these %d processes would work", len(d.Workers))
	}
	return "an attach would work"
}
