package discover

// ForReading returns the pids of a selection for a command that only reads: there may be several servers below a
// pid, and a pid without a GPU process below it is returned itself.
func ForReading(s Selection) ([]int, error) {
	c, err := s.choose()
	if err != nil {
		return nil, err
	}
	pids := make([]int, len(c.Targets))
	for i, p := range c.Targets {
		pids[i] = p.PID
	}
	return pids, nil
}
