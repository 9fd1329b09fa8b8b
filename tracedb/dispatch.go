package tracedb

// A Batch is what a session stores in one commit.
type Batch struct {
	Dispatches []Dispatch
	Untimed    []Untimed
	Filtered   []Filtered
	Left       []FilteredKernel // the kernels of Filtered, and of batches before it
	Coverage   []Coverage       // the accounts that count these, of the queues whose account has changed
}

// Write records a batch. No commit, not even another session's, has a part of it.
func (s *Session) Write(b Batch) error {
	return s.write(len(b.Dispatches)+len(b.Untimed)+len(b.Filtered), func() error {
		for i := range b.Filtered {
			if err := s.filtered(&b.Filtered[i]); err != nil {
				return err
			}
		}
		for _, k := range b.Left {
			if err := s.filteredKernel(k); err != nil {
				return err
			}
		}
		for i := range b.Untimed {
			if err := s.untimed(&b.Untimed[i]); err != nil {
				return err
			}
		}
		for i := range b.Dispatches {
			if err := s.dispatch(&b.Dispatches[i]); err != nil {
				return err
			}
		}
		s.mark.cover(b.Coverage)
		return nil
	})
}

// Dispatches records kernels that ran.
func (s *Session) Dispatches(batch []Dispatch) error { return s.Write(Batch{Dispatches: batch}) }

// Untimed records a run of packets without times.
func (s *Session) Untimed(u Untimed) error { return s.Write(Batch{Untimed: []Untimed{u}}) }

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

// stream holds the ids, assigned by the producer, that consecutive dispatches usually
// share.
type stream struct {
	queue, tid, flags uint32
}

// contexts maps launch ids of one stream to rows of rtl_context (0: none). It is a table of
// pages, because the target can choose any launch ids.
type contexts struct {
	stream
	pages []*contextPage
}

type contextPage [64]int64

func (c *contexts) row(launch uint32) int64 {
	page, at := int(launch)/len(contextPage{}), int(launch)%len(contextPage{})
	if page >= len(c.pages) || c.pages[page] == nil {
		return 0
	}
	return c.pages[page][at]
}

// put returns how many entries it has added.
func (c *contexts) put(launch uint32, row int64) (places int) {
	page, at := int(launch)/len(contextPage{}), int(launch)%len(contextPage{})
	for page >= len(c.pages) {
		c.pages = append(c.pages, nil)
		places++
	}
	if c.pages[page] == nil {
		c.pages[page] = new(contextPage)
		places += len(contextPage{})
	}
	c.pages[page][at] = row
	return places
}

// maxContexts limits the entries in the tables of contexts. When they are full the session
// clears them, and a context that occurs again gets a new row.
const maxContexts = 1 << 22 // 32 MiB

// context returns the row of a dispatch's context, and inserts it if it is new.
func (s *Session) context(d *Dispatch) (row int64, err error) {
	from := stream{d.Queue, d.TID, d.Flags}
	of := s.contextsOf(from)
	launch := d.Launch
	if int(launch) >= len(s.launches) {
		launch = 0 // unknown
	}
	if row := of.row(launch); row != 0 {
		return row, nil
	}
	if row, err = s.newContext(d); err != nil {
		return 0, err
	}
	if s.places >= maxContexts {
		clear(s.contexts)
		s.latest, s.places = nil, 0
		of = s.contextsOf(from)
	}
	s.places += of.put(launch, row)
	return row, nil
}

func (s *Session) contextsOf(st stream) *contexts {
	if s.latest != nil && s.latest.stream == st {
		return s.latest
	}
	of := s.contexts[st]
	if of == nil {
		of = &contexts{stream: st}
		s.contexts[st] = of
		s.places++
	}
	s.latest = of
	return of
}

func (s *Session) newContext(d *Dispatch) (row int64, err error) {
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
	return row, nil
}

func (s *Session) untimed(u *Untimed) error {
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
}
