package preflight

import "github.com/rtl-attach/rtl-attach/internal/failure"

// A Result is the result of a check, in a word.
type Result string

const (
	Fine    Result = "ok"
	Less    Result = "warning" // an attach works, with less than there could be
	Off     Result = "off"     // an optional part is missing
	Unclear Result = "unclear" // only stopping a thread, or an attach, can tell
	Fails   Result = "fails"   // an attach fails
	Skipped Result = "skipped" // an earlier check failed
)

// A CheckResult says what a check has found. Its JSON form is stable (docs/json.md).
type CheckResult struct {
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

func fine(found string) CheckResult { return CheckResult{Result: Fine, Found: found} }

func less(found, cause, fix string) CheckResult {
	return CheckResult{Result: Less, Found: found, Cause: cause, Fix: fix}
}

func off(found, cause, fix string) CheckResult {
	return CheckResult{Result: Off, Found: found, Cause: cause, Fix: fix}
}

// unclear has the exit code that an attach ends with if it fails.
func unclear(found, cause, fix string) CheckResult {
	return CheckResult{Result: Unclear, Found: found, Cause: cause, Fix: fix, ExitCode: failure.Failed}
}

func fails(code failure.ExitCode, cause, fix string) CheckResult {
	return CheckResult{Result: Fails, Cause: cause, Fix: fix, ExitCode: code}
}

// refusal is the result of a check that has failed as an attach would.
func refusal(pid int, err error) CheckResult {
	f := failure.Explain("trace", pid, err, failure.Untouched)
	c := fails(f.Code, f.Cause, f.Fix)
	c.Found = failure.BareText(err)
	return c
}

// as gives a result the name of its check.
func (c CheckResult) as(part, name, lookedAt string) CheckResult {
	c.Part, c.Name, c.LookedAt = part, name, lookedAt
	return c
}
