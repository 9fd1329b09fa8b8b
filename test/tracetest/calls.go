package tracetest

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// WriteWithCalls makes a trace as Write does, in which a call of HIP submits each dispatch.
func WriteWithCalls(t testing.TB, n int) (path string) {
	t.Helper()
	return write(t, n, InOrder, addCalls)
}

// addCalls adds a call for each of n dispatches, on the thread that submits it.
func addCalls(s *tracedb.Session, n int) error {
	const registers, stackWords = 6, 2
	launch, _ := function.Named("hipModuleLaunchKernel")
	batch := make([]calls.Call, 4096)
	for done := 0; done < n; done += len(batch) {
		batch = batch[:min(len(batch), n-done)]
		for i := range batch {
			d := dispatch(uint64(done + i))
			batch[i] = calls.Call{
				StartNS: d.SubmitNS - 300, EndNS: d.SubmitNS + 200, TID: d.TID, Function: uint16(launch),
				Registers: [registers]uint64{0x7f0000000000, 256, 1, 1, 64, 1}, StackWords: stackWords,
			}
		}
		err := s.Kind(len(batch), func(w tracedb.KindWriter) error { return calls.Store(w, ring.KindHIPRuntimeAPI, batch) })
		if err != nil {
			return err
		}
	}
	return nil
}
