// Package allocations is the kind of record of allocations and releases of memory by calls of the
// HSA runtime. HIP allocates memory by such calls, often in larger blocks than its caller asked for.
package allocations

import (
	_ "embed"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

//go:generate go run ../../ring/genabi

//go:embed schema.sql
var schema string

// TypeAllocation is the type of the record of an allocation or a release.
const TypeAllocation = ring.Type(typeAllocation)

// Kind is the kind of allocations and releases of memory.
var Kind = &kind.Kind{
	ID:         ring.KindMemoryAllocation,
	Thing:      "memory operation",
	Flag:       "memory-allocation-trace",
	Usage:      "record allocations and releases of memory, too",
	Schema:     schema,
	Tables:     []string{"rtl_allocation"},
	NewDecoder: newDecoder,
	Read:       read,
	CSV:        []kind.Table{operationTable, siteTable, blockTable},
	Export:     export,
}

func (o Operation) isRelease() bool { return o >= PoolFree && o < OperationCount }

// isVirtual reports whether the operation's address is the handle of physical memory for
// virtual addresses.
func (o Operation) isVirtual() bool { return o == Virtual || o == VirtualFree }
