package ps

import (
	"cmp"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// addFrontEnds lists the processes that use no ROCm and have several GPU workers: their pid
// records the workers together.
func (l *Listing) addFrontEnds(deadline time.Time) {
	listed, workers := map[int]bool{}, map[int]int{}
	for _, p := range l.Processes {
		listed[p.PID] = true
		if p.DriverOpen {
			workers[p.PPID]++
		}
	}
	for pid, n := range workers {
		isInit := pid == 1 && !target.InContainer() // it adopts all orphans
		if n < 2 || pid == 0 || listed[pid] || isInit {
			continue
		}
		if p, inTime := discover.Within(min(discover.LookLimit, time.Until(deadline)), func() *Process { return introducePID(pid) }); inTime && p != nil {
			l.Processes = append(l.Processes, *p)
		}
	}
	slices.SortFunc(l.Processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
}

func introducePID(pid int) *Process {
	t, err := target.OpenLight(pid)
	if err != nil {
		return nil
	}
	defer t.Close()
	return introduce(t)
}

// relate finds the nearest listed ancestor of each process, and the state of front ends.
func (l *Listing) relate() {
	at := map[int]int{}
	for i, p := range l.Processes {
		at[p.PID] = i
	}
	for i := range l.Processes {
		p := &l.Processes[i]
		up := l.parents[p.PID]
		for range len(l.parents) { // limited: reused pids may form a cycle
			if j, listed := at[up]; listed && up != p.PID {
				p.Parent = up
				l.Processes[j].Workers = append(l.Processes[j].Workers, p.PID)
				break
			}
			if up = l.parents[up]; up == 0 {
				break
			}
		}
	}
	for i := range l.Processes {
		l.judgeFrontEnd(&l.Processes[i], at)
	}
}

// judgeFrontEnd sets the state of a process without a GPU to the state of its workers.
func (l *Listing) judgeFrontEnd(p *Process, at map[int]int) {
	var results []preflight.Result
	var codes []failure.ExitCode
	attached := false
	for _, pid := range p.Workers {
		w := l.Processes[at[pid]]
		if !w.DriverOpen {
			continue
		}
		attached = attached || w.State == stateAttached
		results, codes = append(results, resultOf(w.State)), append(codes, w.ExitCode)
	}
	if p.DriverOpen || len(results) == 0 {
		return
	}
	result, code := preflight.PredictExit(results, codes)
	p.State, p.ExitCode, p.Fix = stateOf(result, attached), code, ""
	p.Why = "no GPU; its workers are below"
}

// stateOf returns the state of a process for a diagnosis; resultOf is its inverse.
func stateOf(r preflight.Result, attached bool) string {
	switch {
	case attached:
		return stateAttached
	case r == preflight.Fails:
		return stateBlocked
	case r == preflight.Unclear:
		return stateUnclear
	}
	return stateReady
}

func resultOf(state string) preflight.Result {
	switch state {
	case stateUnclear:
		return preflight.Unclear
	case stateReady:
		return preflight.Fine
	}
	return preflight.Fails
}
