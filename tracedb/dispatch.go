package tracedb

// Dispatches records a batch of kernels that ran.
func (s *Session) Dispatches(batch []Dispatch) error {
	return s.db.write(func() error {
		for i := range batch {
			if err := s.dispatch(&batch[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Session) dispatch(d *Dispatch) error {
	queue, err := s.queue(d.Queue)
	if err != nil {
		return err
	}
	launch, err := s.launch(d.Launch)
	if err != nil {
		return err
	}
	thread, err := s.thread(d.TID)
	if err != nil {
		return err
	}
	queuedNS := null
	if d.SubmitNS != 0 {
		queuedNS = int64(d.StartNS - d.SubmitNS)
	}
	full := s.db.dispatches.add(queue, launch, thread,
		int64(d.Index), int64(d.StartNS), int64(d.EndNS-d.StartNS), queuedNS, int64(d.Flags))
	if full {
		return s.db.dispatches.flush()
	}
	return nil
}

// Untimed records a run of packets without times.
func (s *Session) Untimed(u Untimed) error {
	return s.db.write(func() error {
		queue, err := s.queue(u.Queue)
		if err != nil {
			return err
		}
		launch := null
		if u.Launch != 0 {
			if launch, err = s.launch(u.Launch); err != nil {
				return err
			}
		}
		thread, err := s.thread(u.TID)
		if err != nil {
			return err
		}
		submitNS := null
		if u.SubmitNS != 0 {
			submitNS = int64(u.SubmitNS)
		}
		if s.db.untimed.add(queue, launch, thread, int64(u.Reason), int64(u.Index), int64(u.Packets), submitNS) {
			return s.db.untimed.flush()
		}
		return nil
	})
}
