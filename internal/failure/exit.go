package failure

// ExitCode is the tool's exit code (README, "Exit codes").
type ExitCode int

// Exit codes.
const (
	OK           ExitCode = 0 // records exist, the detach is confirmed
	Failed       ExitCode = 1 // rolled back, the target is as found
	Usage        ExitCode = 2 // target untouched
	NotPermitted ExitCode = 3 // or already traced, or no such process; target untouched
	Unsuitable   ExitCode = 4 // no HSA, static, other architecture, ABI mismatch; target untouched
	TargetExited ExitCode = 5 // while attached, or in the payload's entry; the trace is saved to that moment
	Remains      ExitCode = 6 // not everything could be restored
	NothingSeen  ExitCode = 7 // detached, but nothing was recorded
	SomeFailed   ExitCode = 8 // of several targets; the trace has the others

	// With --strict, instead of 0:
	RecordsMissing ExitCode = 9  // some records are lost, or a kind could not be recorded
	EndedEarly     ExitCode = 10 // the recording ended early
)

// CombineExitCodes returns the code of a run over several processes: their common code, else
// Remains if one has it, else SomeFailed. A process without dispatches is not a failure if
// others have some.
func CombineExitCodes(all []ExitCode) ExitCode {
	codes := map[ExitCode]bool{}
	for _, code := range all {
		codes[code] = true
	}
	if codes[OK] {
		delete(codes, NothingSeen)
	}
	switch {
	case codes[Remains]:
		return Remains
	case len(codes) > 1:
		return SomeFailed
	}
	for code := range codes {
		return code
	}
	return Failed
}
