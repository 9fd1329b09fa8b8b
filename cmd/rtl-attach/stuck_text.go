package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/stuck"
)

// stuckWriter writes a report as sentences; all: with what is not conspicuous.
type stuckWriter struct{ all bool }

func (s stuckWriter) write(w io.Writer, r *stuck.Report) error {
	var b strings.Builder
	for _, c := range r.Collective {
		b.WriteString(collectiveText(c, r.Processes) + "\n")
	}
	for _, p := range r.Processes {
		s.process(&b, p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func rankOf(p *stuck.Process) string {
	if p.Rank == nil {
		return fmt.Sprintf("pid %d", p.PID)
	}
	return fmt.Sprintf("rank %d (pid %d)", *p.Rank, p.PID)
}

func collectiveText(c stuck.Collective, processes []*stuck.Process) string {
	list := func(pids []int) string {
		var words []string
		for _, p := range processes {
			if slices.Contains(pids, p.PID) {
				words = append(words, rankOf(p))
			}
		}
		return strings.Join(words, ", ")
	}
	text := fmt.Sprintf("inside %s: %s", line(c.Name), list(c.Inside))
	if len(c.Outside) > 0 {
		text += fmt.Sprintf("; not inside: %s", list(c.Outside))
	}
	return text
}

func (s stuckWriter) process(b *strings.Builder, p *stuck.Process) {
	if p.Hidden != "" {
		fmt.Fprintf(b, "%s: cannot be read: %s\n", rankOf(p), line(p.Hidden))
		return
	}
	fmt.Fprintf(b, "%s, %s, watched for %s\n", rankOf(p), line(p.Command), watched(p))
	idle := 0
	for _, q := range p.Queues {
		if q.State == stuck.StateIdle && !s.all {
			idle++
			continue
		}
		fmt.Fprintf(b, "  %s\n", line(queueText(&q, p)))
		s.packet(b, q.Packet)
		if len(q.Submitters) > 0 {
			fmt.Fprintf(b, "    thread %s is in a function that submits, and refers to this queue or a signal of its packets\n", numbers(q.Submitters))
		}
	}
	if idle > 0 {
		fmt.Fprintf(b, "  %s: all packets consumed, and no signal of the last ones is open\n", humanize.Things(idle, "other queue"))
	}
	for _, g := range locksOf(p) {
		fmt.Fprintf(b, "  %s\n", g)
	}
	others := 0
	for _, t := range p.Threads {
		if !s.all && t.Within == "" && t.Callback == "" && t.Holder == 0 && t.GIL == "" {
			others++
			continue
		}
		s.thread(b, &t)
	}
	if others > 0 {
		fmt.Fprintf(b, "  %s outside of HIP, HSA and RCCL, or running (--all)\n", humanize.Things(others, "other thread"))
	}
	for _, what := range p.Unseen {
		fmt.Fprintf(b, "  not seen: %s\n", line(what))
	}
}

func watched(p *stuck.Process) string {
	return humanize.Duration(time.Duration(p.Watched * float64(time.Second)))
}

// queueText returns what a queue does, in one sentence.
func queueText(q *stuck.Queue, p *stuck.Process) string {
	name := fmt.Sprintf("queue %d", q.ID)
	switch {
	case q.GPU != nil:
		name += fmt.Sprintf(" of GPU %d", *q.GPU)
	case q.GPUID != 0:
		name += fmt.Sprintf(" of the GPU with id %d", q.GPUID)
	}
	since := "for ≥ " + watched(p)
	behind := ""
	if n := q.Write - q.Read; q.Write > q.Read && n > 1 {
		behind = fmt.Sprintf("; %s", humanize.Things(n-1, "packet")) + " behind it"
	}
	at := fmt.Sprintf("at index %d", q.Read)
	switch q.State {
	case stuck.StateMoves:
		return fmt.Sprintf("%s moves: read index %d, write index %d", name, q.Read, q.Write)
	case stuck.StateIdle:
		return fmt.Sprintf("%s is idle: all %s consumed", name, humanize.Things(q.Read, "packet"))
	case stuck.StateGone:
		return name + " has been destroyed meanwhile"
	case stuck.StateUnreadable:
		return fmt.Sprintf("%s waits %s: the packet %s cannot be read: the ring is in memory of the GPU that the kernel does not let others read%s", name, since, at, behind)
	case stuck.StateRunning:
		return fmt.Sprintf("%s: all %s consumed; %s", name, humanize.Things(q.Read, "packet"), runningText(q, since))
	case stuck.StateUnpublished:
		return fmt.Sprintf("%s waits %s for the program: the packet %s was claimed, and has not been written%s", name, since, at, behind)
	case stuck.StateSignal:
		return fmt.Sprintf("%s waits %s at the barrier packet %s%s", name, since, at, behind)
	case stuck.StateBehind:
		return fmt.Sprintf("%s waits %s: the packet %s waits for all before it; %s%s", name, since, at, runningText(q, since), behind)
	}
	if q.Passed != nil && *q.Passed <= q.Read {
		return fmt.Sprintf("%s waits %s: the packet %s is complete, and rtl-attach, which records, has not passed it to the GPU yet%s", name, since, at, behind)
	}
	return fmt.Sprintf("%s waits %s: the packet %s is complete: the GPU runs it, or does not process the queue (no doorbell, or a fault)%s", name, since, at, behind)
}

// runningText tells which packets have not signalled their completion.
func runningText(q *stuck.Queue, since string) string {
	first := q.Running[0]
	what := fmt.Sprintf("the packet %d", first.Index)
	if first.Kernel != "" {
		what = fmt.Sprintf("the kernel %s (index %d)", first.Kernel, first.Index)
	}
	text := fmt.Sprintf("%s has not completed %s: its signal %s", what, since, signalText(first.Completion))
	if first.Claim != nil {
		text += "; " + claimText(first.Claim)
	}
	if n := len(q.Running) - 1; n > 0 {
		text += fmt.Sprintf(", and %s more", humanize.Count(n))
	}
	return text
}

func signalText(s *stuck.Signal) string {
	if !s.Valid {
		return fmt.Sprintf("%#x is no signal (any more)", s.Handle)
	}
	text := fmt.Sprintf("%#x is %d", s.Handle, s.Value)
	if len(s.Waiters) > 0 {
		text += fmt.Sprintf(" (thread %s refers to it)", numbers(s.Waiters))
	}
	return text
}

// packet writes the packet at the read index.
func (s stuckWriter) packet(b *strings.Builder, p *stuck.Packet) {
	if p == nil {
		return
	}
	if p.Claim != nil {
		fmt.Fprintf(b, "    %s\n", line(claimText(p.Claim)))
	}
	if p.Type == "invalid" {
		return
	}
	if p.Type == "dispatch" {
		fmt.Fprintf(b, "    kernel %s, %s work-items in groups of %s\n", line(cmp.Or(p.Kernel, fmt.Sprintf("with the unknown descriptor %#x", p.KernelObject))),
			product(p.Grid), product(p.Workgroup))
	}
	for _, d := range p.Dependencies {
		if d.Valid && d.Value == 0 && p.Condition == "" && !s.all {
			continue
		}
		text := fmt.Sprintf("depends on signal %s%s", signalText(d), whoCompletes(d))
		if p.Condition != "" {
			text += "; it waits for a value " + p.Condition
		}
		fmt.Fprintf(b, "    %s\n", text)
	}
	if p.Completion != nil {
		fmt.Fprintf(b, "    completion signal %s\n", signalText(p.Completion))
	}
}

// claimText tells who claimed a packet's slot.
func claimText(c *stuck.Claim) string {
	who := "a thread that is not known"
	switch {
	case c.Ended:
		who = fmt.Sprintf("thread %d, which has ended,", c.TID)
	case c.TID != 0:
		who = fmt.Sprintf("thread %d (%s)", c.TID, c.Name)
	}
	if c.Age == nil {
		return who + " claimed its slot"
	}
	return fmt.Sprintf("%s claimed its slot %s ago", who, humanize.Duration(time.Duration(*c.Age*float64(time.Second))))
}

// whoCompletes tells which packets would decrement a signal.
func whoCompletes(s *stuck.Signal) string {
	switch {
	case !s.Valid || s.Value == 0:
		return ""
	case len(s.By) == 0:
		return "; it belongs to no packet in these queues: the program, or another process, must signal it"
	}
	var words []string
	for _, by := range s.By {
		words = append(words, fmt.Sprintf("packet %d of queue %d", by.Index, by.Queue))
	}
	return "; completed by " + strings.Join(words, ", ")
}

func product[N uint16 | uint32](sizes []N) string {
	words := make([]string, len(sizes))
	for i, n := range sizes {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, "×")
}

func (s stuckWriter) thread(b *strings.Builder, t *stuck.Thread) {
	text := fmt.Sprintf("thread %d (%s)", t.TID, t.Name)
	if t.Within != "" {
		text += " is in " + t.Within
	}
	switch {
	case t.Callback != "" && t.Within != "":
		text += ", which has called the program's " + t.Callback
	case t.Callback != "":
		text += " is in the program's " + t.Callback + ", which ROCm has called"
	}
	switch {
	case t.Call != "" && t.Same:
		text += ", all the time in the same " + t.Call
	case t.Call != "":
		text += ", in " + t.Call
	case t.State == "R":
		text += ", running"
	}
	if t.Asleep > 0 {
		text += " for ≥ " + humanize.Duration(time.Duration(t.Asleep*float64(time.Second)))
	}
	if t.Holder != 0 {
		text += fmt.Sprintf(", for a mutex that thread %d holds", t.Holder)
	}
	switch t.GIL {
	case "holds":
		text += ", holds the GIL"
	case "waits":
		text += ", for the GIL"
	}
	fmt.Fprintf(b, "  %s\n", line(text))
	const few = 6
	stack := t.Stack
	if !s.all && len(stack) > few {
		stack = slices.DeleteFunc(slices.Clone(stack), func(frame string) bool { return dull(frame, len(t.Python) > 0) })
		stack = stack[:min(len(stack), few)]
	}
	if len(stack) > 0 {
		mark := ""
		if t.Unsure || t.StackErr != "" {
			mark = " (not certain)"
		}
		fmt.Fprintf(b, "    %s%s\n", line(strings.Join(stack, " < ")), mark)
	}
}

// dull reports whether a frame is left out of a short stack: one without a name, and the interpreter's own.
func dull(frame string, python bool) bool {
	return strings.Contains(frame, "+0x") || python && (strings.HasPrefix(frame, "Py") || strings.HasPrefix(frame, "_Py"))
}

// locksOf returns what is known of the GILs that are held.
func locksOf(p *stuck.Process) (found []string) {
	if p.Python == nil {
		return nil
	}
	for _, g := range p.Python.Locks {
		if !g.Locked {
			continue
		}
		text := "GIL: held by a thread that has ended, or is not known"
		if g.Holder != 0 {
			text = fmt.Sprintf("GIL: held by thread %d", g.Holder)
		}
		if len(g.Waiters) > 0 {
			text += "; waiting for it: " + numbers(g.Waiters)
		}
		found = append(found, text)
	}
	return found
}
