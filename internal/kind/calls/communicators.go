package calls

import (
	"context"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// mostCommKernels limits the kernels in the result of KernelCommunicators; it lacks further ones.
const mostCommKernels = 1 << 20

// KernelCommunicators returns the communicator of each kernel (row of rtl_execution) that a recorded call of RCCL
// submitted: a number from 1 on, the same for all ranks of a communicator that are in the trace, or, if they are only known by
// making the same calls, so that they may be of several communicators, less than 0. It has no kernels of communicators of
// which the trace has one rank, of groups of several communicators, and of replays of graphs.
func KernelCommunicators(ctx context.Context, tr *traceread.Trace) (map[int64]int32, error) {
	if is, err := RCCL.IsIn(tr); err != nil || !is {
		return nil, err
	}
	r := &kind.Reading{Ctx: ctx, Trace: tr, Window: traceread.Always}
	a := &api{id: ring.KindRCCLAPI}
	known, _, err := a.functionsOf(ctx, tr)
	if err != nil || len(known) == 0 {
		return nil, err
	}
	in := &transfers{known: known, comms: map[commKey]*comm{}}
	if err := in.read(r, a); err != nil || len(in.all) == 0 {
		return nil, err
	}
	numbers := map[*commGroup]int32{}
	for i, g := range match(in.order) {
		if len(g.ranks) > 1 {
			if numbers[g] = int32(i + 1); g.matchedBy != "id" {
				numbers[g] = -numbers[g]
			}
		}
	}
	const mixed = 0
	calls := map[int64]int32{}
	for i := range in.all {
		t := &in.all[i]
		number := numbers[t.comm.group]
		if before, has := calls[t.call()]; has && before != number {
			number = mixed
		}
		calls[t.call()] = number
	}
	kernels := map[int64]int32{}
	err = tr.Each(ctx, func(row traceread.Row) error {
		var call, kernel int64
		err := row.Scan(&call, &kernel)
		if number := calls[call]; number != 0 && len(kernels) < mostCommKernels {
			kernels[kernel] = number
		}
		return err
	}, "SELECT call_id, kernel_id FROM call_kernel")
	return kernels, err
}
