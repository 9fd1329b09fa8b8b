package collector

import (
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// define processes a definition, to which other records refer by its id, or a record of an
// unknown type.
func (c *Collector) define(r *ring.Record) error {
	switch r.Type() {
	case ring.TypeAgent:
		return c.agent(r.Agent())
	case ring.TypeQueue:
		return c.queue(r.Queue())
	case ring.TypeLaunch:
		return c.launch(r.Launch())
	case ring.TypeCodeObject:
		return c.codeObject(r.CodeObject())
	}
	c.tally.unknown++ // of a later payload version; its meaning is unknown
	return nil
}

func (c *Collector) agent(a *ring.Agent) error {
	if !c.tables.agents.add(a.ID, maxAgents) {
		c.tally.refused++
		return nil
	}
	c.filter.agent(a)
	return c.sink.Agent(tracedb.Agent{
		ID: a.ID, GPU: a.GPU, Name: c.text(a.Name), Product: c.text(a.Product),
		Handle: a.Handle, DriverNode: a.DriverNode, BDF: a.BDF, PCIDomain: a.PCIDomain, ComputeUnits: a.ComputeUnits,
	})
}

func (c *Collector) queue(q *ring.Queue) error {
	if !c.tables.queues.add(q.ID, maxQueues) {
		c.tally.refused++
		return nil
	}
	c.coverage.of(q.ID) // an idle queue has an account, too
	c.filter.queue(q)
	return c.sink.Queue(tracedb.Queue{
		ID: q.ID, Agent: c.knownAgent(q.Agent), Address: q.Address, HSAID: q.HSAID, Doorbell: q.Doorbell,
		SizePackets: q.Size, Type: q.Type, Flags: q.Flags,
	})
}

func (c *Collector) launch(l *ring.Launch) error {
	if !c.tables.launches.add(l.ID, maxLaunches) {
		c.tally.refused++
		return nil
	}
	symbol := c.text(l.Name)
	c.filter.launch(l.ID, symbol)
	return c.sink.Launch(tracedb.Launch{
		ID: l.ID, Agent: c.knownAgent(l.Agent), Symbol: symbol, Grid: l.Grid, Workgroup: l.Workgroup,
		GroupSegmentBytes: l.GroupSegmentBytes, PrivateSegmentBytes: l.PrivateSegmentBytes, KernelObject: l.KernelObject,
	})
}

func (c *Collector) codeObject(o *ring.CodeObject) error {
	if !c.tables.codeObjects.add(o.ID, maxID) {
		c.tally.refused++
		return nil
	}
	return c.sink.CodeObject(tracedb.CodeObject{
		ID: o.ID, Agent: c.knownAgent(o.Agent), URI: c.text(o.URI),
		Executable: o.Executable, LoadBase: o.LoadBase, LoadSizeBytes: o.LoadSize,
	})
}

// knownAgent accepts an id whose definition has not arrived yet: the payload finds out late
// about some agents. The collector counts ids that stay undefined at the end. 0 means
// "unknown" in the ABI, here and in text.
func (c *Collector) knownAgent(id uint32) uint32 {
	if id != 0 && !c.tables.agents.has(id) && !c.tables.awaited.has(id) {
		return c.known(c.tables.awaited.add(id, maxAgents), id)
	}
	return id
}

func (c *Collector) text(id uint32) string {
	s, ok := c.tables.strings[id]
	if !ok && id != 0 {
		c.tally.undefined++
	}
	return s
}
