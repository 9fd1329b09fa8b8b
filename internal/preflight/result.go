package preflight

import "github.com/rtl-attach/rtl-attach/internal/failure"

// Result is the result of a check.
type Result string

const (
	Fine    Result = "ok"
	Less    Result = "warning" // an attach works with reduced features
	Off     Result = "off"     // an optional part is missing
	Unclear Result = "unclear" // only a stop of a thread, or an attach, can show it
	Fails   Result = "fails"   // an attach fails
	Skipped Result = "skipped" // an earlier check failed
)

// CheckResult has the findings of a check. Its JSON form is stable (docs/json.md).
type CheckResult struct {
	Name     string           `json:"name"`
	Part     string           `json:"part"` // "process", "machine" or "optional"
	LookedAt string           `json:"looked_at"`
	Result   Result           `json:"result"`
	Found    string           `json:"found,omitempty"`
	Cause    string           `json:"cause,omitempty"`
	Fix      string           `json:"fix,omitempty"`
	ExitCode failure.ExitCode `json:"exit_code,omitempty"` // of an attach
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

// unclear returns an unclear result with the exit code of an attach that fails for it.
func unclear(found, cause, fix string) CheckResult {
	return CheckResult{Result: Unclear, Found: found, Cause: cause, Fix: fix, ExitCode: failure.Failed}
}

func fails(code failure.ExitCode, cause, fix string) CheckResult {
	return CheckResult{Result: Fails, Cause: cause, Fix: fix, ExitCode: code}
}

// refusal returns the result of a check that fails as the attach would.
func refusal(pid int, err error) CheckResult {
	f := failure.Explain("trace", pid, err, failure.Untouched)
	c := fails(f.Code, f.Cause, f.Fix)
	c.Found = failure.BareText(err)
	return c
}

// as sets the check's name in a result.
func (c CheckResult) as(part, name, lookedAt string) CheckResult {
	c.Part, c.Name, c.LookedAt = part, name, lookedAt
	return c
}
