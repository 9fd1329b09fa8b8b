package tracedb

// Definitions: rows to which other rows refer. Each is inserted once; later rows use the id
// that the file assigned.

// Agent defines a GPU. Other rows may already refer to it.
func (s *Session) Agent(a Agent) error {
	return s.write(1, func() error {
		name, err := s.db.intern(a.Name)
		if err != nil {
			return err
		}
		product, err := s.db.intern(a.Product)
		if err != nil {
			return err
		}
		row, err := s.agent(a.ID)
		if err != nil {
			return err
		}
		return s.db.exec(`UPDATE rtl_agent SET gpu_id = ?, ordinal = ?, name_id = ?, product_id = ?, handle = ?,
			driver_node = ?, bdf = ?, compute_units = ? WHERE id = ?`,
			s.db.devices.number(device{a.place(), a.DriverNode}, a.GPU), a.GPU, name, product, int64(a.Handle),
			a.DriverNode, a.place(), a.ComputeUnits, row)
	})
}

// Queue defines a queue.
func (s *Session) Queue(q Queue) error {
	return s.write(1, func() error {
		agent, err := s.agent(q.Agent)
		if err != nil {
			return err
		}
		id, err := s.db.insert("INSERT INTO rtl_queue VALUES(NULL,?,?,?,?,?,?,?,?)",
			s.id, agent, int64(q.Address), int64(q.HSAID), int64(q.Doorbell), q.SizePackets, q.Type, q.Flags)
		put(&s.queues, q.ID, id)
		s.db.due = true
		return err
	})
}

// CodeObject records loaded code. No other row refers to it.
func (s *Session) CodeObject(c CodeObject) error {
	return s.write(1, func() error {
		agent, err := s.agent(c.Agent)
		if err != nil {
			return err
		}
		uri, err := s.db.intern(c.URI)
		if err != nil {
			return err
		}
		return s.db.exec("INSERT INTO rtl_code_object VALUES(NULL,?,?,?,?,?,?)",
			s.id, agent, uri, int64(c.Executable), int64(c.LoadBase), int64(c.LoadSizeBytes))
	})
}

// Launch defines a kernel with its geometry.
func (s *Session) Launch(l Launch) error {
	return s.write(1, func() error {
		agent, err := s.agent(l.Agent)
		if err != nil {
			return err
		}
		name, err := s.db.kernelName(l.Symbol)
		if err != nil {
			return err
		}
		symbol, err := s.db.intern(l.Symbol)
		if err != nil {
			return err
		}
		id, err := s.db.insert("INSERT INTO rtl_launch VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?)",
			s.id, agent, name, symbol, l.Grid[0], l.Grid[1], l.Grid[2], l.Workgroup[0], l.Workgroup[1], l.Workgroup[2],
			l.GroupSegmentBytes, l.PrivateSegmentBytes, int64(l.KernelObject))
		put(&s.launches, l.ID, id)
		return err
	})
}

func put(table *[]int64, id uint32, row int64) {
	for int(id) >= len(*table) {
		*table = append(*table, 0)
	}
	(*table)[id] = row
}

// get returns the row of an id. For an undefined id it returns the row for "unknown", which
// it inserts when it is first needed.
func get(table []int64, id uint32, unknown func() (int64, error)) (row int64, err error) {
	if int(id) < len(table) {
		row = table[id]
	}
	if row == 0 {
		row = table[0]
	}
	if row == 0 {
		row, err = unknown()
		table[0] = row
	}
	return row, err
}

// agent returns the row of an agent. For an agent that is not defined yet it inserts a row,
// to be filled in later, as a separate device, so that its time is not added to a known
// device's.
func (s *Session) agent(id uint32) (int64, error) {
	if int(id) < len(s.agents) && s.agents[id] != 0 {
		return s.agents[id], nil
	}
	empty, err := s.db.intern("")
	if err != nil {
		return 0, err
	}
	row, err := s.db.insert("INSERT INTO rtl_agent(session_id, gpu_id, name_id, product_id) VALUES(?,?,?,?)",
		s.id, s.db.devices.number(device{nowhere, nowhere}, unknownGPU), empty, empty)
	put(&s.agents, id, row)
	return row, err
}

func (s *Session) queue(id uint32) (int64, error) {
	return get(s.queues, id, func() (int64, error) {
		agent, err := s.agent(0)
		if err != nil {
			return 0, err
		}
		return s.db.insert("INSERT INTO rtl_queue(session_id, agent_id) VALUES(?,?)", s.id, agent)
	})
}

func (s *Session) launch(id uint32) (int64, error) {
	return get(s.launches, id, func() (int64, error) {
		agent, err := s.agent(0)
		if err != nil {
			return 0, err
		}
		name, err := s.db.intern(unresolved)
		if err != nil {
			return 0, err
		}
		empty, err := s.db.intern("")
		if err != nil {
			return 0, err
		}
		return s.db.insert("INSERT INTO rtl_launch(session_id, agent_id, name_id, symbol_id) VALUES(?,?,?,?)",
			s.id, agent, name, empty)
	})
}

// thread returns the row of a thread, or null.
func (s *Session) thread(tid uint32) (int64, error) {
	if tid == 0 {
		return null, nil
	}
	id, ok := s.threads[tid]
	if !ok {
		if len(s.threads) >= maxThreads {
			return null, nil
		}
		var name any // NULL: unknown
		if s.nameOf != nil {
			if n := s.nameOf(tid); n != "" {
				name = n
			}
		}
		var err error
		if id, err = s.db.insert("INSERT INTO rtl_thread(session_id, tid, name) VALUES(?,?,?)", s.id, tid, name); err != nil {
			return null, err
		}
		s.threads[tid] = id
	}
	return id, nil
}
