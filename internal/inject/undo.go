package inject

import "errors"

// undo is a stack of steps to run, last first, if a later step fails.
type undo struct {
	steps []func() error
}

func (u *undo) push(step func() error) { u.steps = append(u.steps, step) }

// forget drops the steps: from here on the bootstrap thread cleans up.
func (u *undo) forget() { u.steps = nil }

// run runs the steps and returns their errors.
func (u *undo) run() error {
	var errs []error
	for len(u.steps) > 0 {
		last := len(u.steps) - 1
		step := u.steps[last]
		u.steps = u.steps[:last]
		errs = append(errs, step())
	}
	return errors.Join(errs...)
}
