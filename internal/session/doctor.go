package session

// A Diagnosis says whether an attach would work, and what it rests on. Its JSON
// form is stable.
type Diagnosis struct {
	PID      int      `json:"pid,omitempty"` // none: of the machine
	Command  string   `json:"command,omitempty"`
	Verdict  Result   `json:"verdict"` // ok, unclear or fails
	ExitCode ExitCode `json:"exit_code"`
	Cause    string   `json:"cause,omitempty"`
	Fix      string   `json:"fix,omitempty"`
	Checks   []Check  `json:"checks"`
}

// Diagnose looks at everything that could stand in the way of an attach to
// o.PID, or to any process if that is 0, and touches nothing. With readFilters a
// thread with seccomp filters is stopped for a moment to read them.
func Diagnose(o Options, readFilters bool) (*Diagnosis, error) {
	return unlessStalled(o.PID, func() (*Diagnosis, error) {
		d := &Diagnosis{PID: o.PID}
		if o.PID == 0 {
			d.machine(o)
			d.judge(ofMachine)
			return d, nil
		}
		e := &examination{approach: approach{o: o}, d: d, steps: steps, readFilters: readFilters}
		defer e.close()
		e.run()
		d.judge(ofProcess)
		d.machine(o)
		return d, nil
	})
}

// judge takes the verdict from the first check of that part that fails, or else
// from the first unclear one.
func (d *Diagnosis) judge(part string) {
	d.Verdict, d.ExitCode = Fine, OK
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
