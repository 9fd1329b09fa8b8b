package session

import "github.com/rtl-attach/rtl-attach/internal/failure"

// A Result is what a check came to.
type Result string

const (
	Fine    Result = "ok"
	Less    Result = "warning" // an attach works, with less than there could be
	Off     Result = "off"     // an optional part that is not there
	Unclear Result = "unclear" // what can be told only by stopping a thread, or by attaching
	Fails   Result = "fails"   // an attach fails
	Skipped Result = "skipped" // what came before it failed
)

// A Check is one thing that could stand in the way. Its JSON form is stable.
type Check struct {
	Name     string           `json:"name"`
	Part     string           `json:"part"` // "process", "machine" or "optional"
	LookedAt string           `json:"looked_at"`
	Result   Result           `json:"result"`
	Found    string           `json:"found,omitempty"`
	Cause    string           `json:"cause,omitempty"`
	Fix      string           `json:"fix,omitempty"`
	ExitCode failure.ExitCode `json:"exit_code,omitempty"` // that an attach would end with
}

// Parts of a diagnosis.
const (
	ofProcess  = "process"
	ofMachine  = "machine"
	ofOptional = "optional"
)

func fine(found string) Check { return Check{Result: Fine, Found: found} }

func less(found, cause, fix string) Check {
	return Check{Result: Less, Found: found, Cause: cause, Fix: fix}
}

func off(found, cause, fix string) Check {
	return Check{Result: Off, Found: found, Cause: cause, Fix: fix}
}

// unclear has the code of an attach that fails after its look: if it does.
func unclear(found, cause, fix string) Check {
	return Check{Result: Unclear, Found: found, Cause: cause, Fix: fix, ExitCode: failure.Failed}
}

func fails(code failure.ExitCode, cause, fix string) Check {
	return Check{Result: Fails, Cause: cause, Fix: fix, ExitCode: code}
}

// refusal is a check that has failed as an attach would.
func refusal(pid int, err error) Check {
	f := failure.Explain("trace", pid, err, failure.Untouched)
	c := fails(f.Code, f.Cause, f.Fix)
	c.Found = failure.BareText(err)
	return c
}

// as names a check.
func (c Check) as(part, name, lookedAt string) Check {
	c.Part, c.Name, c.LookedAt = part, name, lookedAt
	return c
}
