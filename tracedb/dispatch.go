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
	context, err := s.context(d)
	if err != nil {
		return err
	}
	queuedNS := null
	if d.SubmitNS != 0 {
		queuedNS = int64(d.StartNS - d.SubmitNS)
	}
	full := s.db.executions.add(context, int64(d.Index), int64(d.StartNS), int64(d.EndNS-d.StartNS), queuedNS)
	if full {
		return s.db.executions.flush()
	}
	return nil
}

// A dispatchContext is what a dispatch has in common with others, in the producer's ids.
type dispatchContext struct {
	queue, launch, tid, flags uint32
}

// maxContexts bounds the table of contexts, which the target makes up. When it
// is full they are forgotten, and those that come again get a new row.
const maxContexts = 1 << 18

// context returns the row of a dispatch's context, and makes it when it is new.
func (s *Session) context(d *Dispatch) (row int64, err error) {
	c := dispatchContext{d.Queue, d.Launch, d.TID, d.Flags}
	row, ok := s.contexts[c]
	if ok {
		return row, nil
	}
	queue, err := s.queue(d.Queue)
	if err != nil {
		return 0, err
	}
	launch, err := s.launch(d.Launch)
	if err != nil {
		return 0, err
	}
	thread, err := s.thread(d.TID)
	if err != nil {
		return 0, err
	}
	s.db.lastContext++
	row = s.db.lastContext
	if s.db.contexts.add(row, queue, launch, thread, int64(d.Flags)) {
		if err := s.db.contexts.flush(); err != nil {
			return 0, err
		}
	}
	if len(s.contexts) >= maxContexts {
		clear(s.contexts)
	}
	s.contexts[c] = row
	return row, nil
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
