package cpusample

// interpreter is the Python of a process.
type interpreter interface {
	// layout fills in where the kernel's programs find the frames of a thread.
	layout(t *kernelTarget)
	// merge puts Python frames between native ones: visit is called for each, the innermost first, with the index of
	// a native frame, or -1 and the Python frame.
	merge(native []uint64, calls []kernelCall, visit func(native int, name, file string, line int))
}

// merge appends native and Python frames.
func (p *Process) merge(calls []kernelCall) {}
