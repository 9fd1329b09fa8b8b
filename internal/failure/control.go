package failure

// NoControl explains why a control channel cannot be opened.
func NoControl(spec string, err error) *Error {
	return &Error{
		What: "cannot open --control " + spec, Cause: "opening it failed: " + BareText(err), Target: Untouched, Code: Failed, Err: err,
		Fix: "remove what a killed recorder has left there, or name another file, that this user may make",
	}
}
