package preflight

import (
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

// Diagnosis is the prediction of an attach, with the checks that led to it. Its JSON form is
// stable (docs/json.md).
type Diagnosis struct {
	Version  string           `json:"version,omitempty"` // of this tool; empty for workers
	PID      int              `json:"pid,omitempty"`     // 0: the machine
	Command  string           `json:"command,omitempty"`
	Rank     *int             `json:"rank,omitempty"`
	Verdict  Result           `json:"verdict"` // ok, unclear or fails
	ExitCode failure.ExitCode `json:"exit_code"`
	Cause    string           `json:"cause,omitempty"`
	Fix      string           `json:"fix,omitempty"`
	Checks   []CheckResult    `json:"checks"`

	Workers    []*Diagnosis `json:"workers,omitempty"` // processes to record together
	PassedOver string       `json:"passed_over,omitempty"`
}

// Diagnose checks everything that could prevent an attach to the processes that s selects, or,
// if s selects none, to any process. It touches nothing, except with readFilters: then it stops
// a thread with seccomp filters for a moment to read them.
func Diagnose(r Request, s discover.Selection, readFilters bool) (*Diagnosis, error) {
	if len(s.PIDs) > 0 {
		r.PID = s.PIDs[0]
	}
	d, err := watchdog.Do(r.PID, func() (*Diagnosis, error) {
		if len(s.PIDs) == 0 && s.Name == nil {
			return diagnoseMachine(r), nil
		}
		c, err := s.Resolve()
		switch {
		case err != nil:
			return nil, err
		case !c.Alone(s):
			return diagnoseAll(r, c, readFilters), nil
		}
		d := diagnose(r, checks, limits{readFilters, resident.HeartbeatTimeout()})
		d.machine(true)
		return d, nil
	})
	if err != nil {
		return nil, failure.Explain("look for", r.PID, err, failure.Untouched)
	}
	d.Version = r.Version
	return d, nil
}

func diagnoseMachine(r Request) *Diagnosis {
	d := &Diagnosis{}
	d.common(r)
	d.machine(false)
	d.judge(ofMachine)
	return d
}

// DiagnoseProcess predicts an attach to pid, without the checks that are the same for every
// process. It waits up to silence for a heartbeat of a recorder in another pid namespace.
func DiagnoseProcess(pid int, silence time.Duration) *Diagnosis {
	return diagnose(Request{PID: pid}, processChecks(), limits{silence: silence})
}

// diagnose makes the given checks of one process, and the extra ones.
func diagnose(r Request, checks []check, with limits) *Diagnosis {
	d := &Diagnosis{PID: r.PID}
	e := &examination{Preflight: New(r), d: d, checks: checks, limits: with}
	defer e.Close()
	e.run()
	d.judge(ofProcess)
	if e.ready() {
		d.Rank = discover.RankOf(e.Target)
	}
	return d
}

// diagnoseAll predicts a recording of several processes.
func diagnoseAll(r Request, c *discover.Choice, readFilters bool) *Diagnosis {
	r.PID = c.First
	d := &Diagnosis{PID: c.First, Command: discover.Glance(c.First).Command, PassedOver: discover.Names(c.Passed)}
	d.common(r)
	for _, one := range c.Targets {
		r.PID = one.PID
		w := diagnose(r, processChecks(), limits{readFilters, resident.HeartbeatTimeout()})
		d.Workers = append(d.Workers, w)
	}
	if d.judge(ofMachine); d.Verdict != Fails {
		d.judgeWorkers()
	}
	d.machine(true)
	return d
}

// judge sets the verdict by the first check of that part that fails, or else by the first
// unclear one.
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

// judgeWorkers sets the verdict by the first worker that fails, or else by the first unclear
// one, and the exit code by all workers, as their recording would.
func (d *Diagnosis) judgeWorkers() {
	var results []Result
	var codes []failure.ExitCode
	for _, w := range d.Workers {
		results, codes = append(results, w.Verdict), append(codes, w.ExitCode)
	}
	d.Verdict, d.ExitCode = PredictExit(results, codes)
	for _, w := range d.Workers {
		if w.Verdict == d.Verdict {
			d.Cause, d.Fix = w.Cause, w.Fix
			return
		}
	}
}

// PredictExit returns the verdict and the exit code for a recording of several processes, by the
// verdict and the code of each.
func PredictExit(results []Result, codes []failure.ExitCode) (Result, failure.ExitCode) {
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

// Told returns the verdict as a line of text.
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
