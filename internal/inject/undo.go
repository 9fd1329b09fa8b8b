package inject

import "errors"

// undo is what has to be taken back if a later step fails, last first.
type undo struct {
	steps []func() error
}

func (u *undo) push(step func() error) { u.steps = append(u.steps, step) }

// forget drops the steps: from here on somebody else takes things back.
func (u *undo) forget() { u.steps = nil }

// run takes everything back and returns what could not be.
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
