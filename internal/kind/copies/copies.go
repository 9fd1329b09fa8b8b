// Package copies is the kind of record of memory copies that the application requests from the
// HSA runtime. HIP's own copy kernels are dispatches.
package copies

import (
	_ "embed"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

//go:generate go run ../../ring/genabi

//go:embed schema.sql
var schema string

// TypeCopy is the type of a copy's record.
const TypeCopy = ring.Type(typeCopy)

// Kind is the kind of memory copies.
var Kind = &kind.Kind{
	ID:         ring.KindMemoryCopy,
	Thing:      "memory copy",
	Flag:       "memory-copy-trace",
	Usage:      "record memory copies, too",
	Schema:     schema,
	Tables:     []string{"rtl_copy"},
	NewDecoder: newDecoder,
	Read:       read,
	CSV:        []kind.Table{directionTable},
	Export:     export,
}
