// Package markers is the kind of record of ROCTx's markers and ranges: the application's own
// words for what it is doing.
package markers

import (
	_ "embed"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

//go:generate go run ../../ring/genabi

//go:embed schema.sql
var schema string

// The types of the records: of a call, and of the libraries.
const (
	TypeMarker   = ring.Type(typeMarker)
	TypeCoverage = ring.Type(typeCoverage)
)

// Kind is the kind of markers.
var Kind = &kind.Kind{
	ID:         ring.KindMarker,
	Thing:      "marker call",
	Event:      "marker",
	Flag:       "marker-trace",
	Usage:      "record ROCTx markers and ranges, too",
	Schema:     schema,
	Tables:     []string{"rtl_marker", "rtl_marker_library"},
	Describes:  []ring.Type{TypeCoverage},
	NewDecoder: newDecoder,
	Read:       read,
	CSV:        []kind.Table{phaseTable},
	Export:     export,
}
