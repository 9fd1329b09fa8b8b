package main

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// The benchmark's dispatches, the same as in writers/rows.h.
const (
	pairs    = 600 // pairs of a queue and a kernel
	queues   = 8
	launches = 300
	threads  = 16

	firstThread = 4000
	monthNS     = 30 * 86400e9
)

func dispatch(n uint64) tracedb.Dispatch {
	pair, start := n%pairs, uint64(monthNS)+n*4000
	return tracedb.Dispatch{
		StartNS: start, EndNS: start + 9000 + n%5000, SubmitNS: start - 6000 - n%7000, Index: n / 8,
		Queue: uint32(pair%queues) + 1, Launch: uint32(pair%launches) + 1, TID: firstThread + uint32(n/64%threads),
	}
}

// define writes the definitions to which the dispatches refer.
func define(s *tracedb.Session) error {
	if err := s.Agent(tracedb.Agent{ID: 1, Name: "gfx90a"}); err != nil {
		return err
	}
	for id := range uint32(queues) {
		if err := s.Queue(tracedb.Queue{ID: id + 1, Agent: 1, HSAID: uint64(id)}); err != nil {
			return err
		}
	}
	for id := range uint32(launches) {
		err := s.Launch(tracedb.Launch{
			ID: id + 1, Agent: 1, Grid: [3]uint32{256 * id, 1, 1}, Workgroup: [3]uint16{256, 1, 1},
			Symbol: fmt.Sprintf("void vllm::paged_attention_v2_kernel<__hip_bfloat16, unsigned char, %d, 16, 128>(float*, float const*)", id),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
