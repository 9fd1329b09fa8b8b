// Package all lists the kinds of record.
package all

import (
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/allocations"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/kind/markers"
	"github.com/rtl-attach/rtl-attach/internal/kind/scratch"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Kinds are the kinds of record except dispatches, in the order in which a report shows them.
var Kinds = append(slices.Clone(productKinds), testKinds...)

var productKinds = []*kind.Kind{
	copies.Kind, calls.HIPRuntime, calls.HIPCompiler, calls.HSACore, calls.HSAAMD, calls.RCCL,
	allocations.Kind, scratch.Kind, markers.Kind,
}

func init() {
	for _, k := range Kinds {
		tracedb.AddSchema(k.Schema)
		if k.Calls.SQL != "" {
			tracedb.AddCalls(k.Calls)
		}
	}
}

// Named returns the kind with this name in RTL_TRACE; nil: there is none.
func Named(name string) *kind.Kind {
	for _, k := range Kinds {
		if k.ID.String() == name {
			return k
		}
	}
	return nil
}
