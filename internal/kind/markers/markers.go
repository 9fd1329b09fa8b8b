// Package markers is the kind of record of ROCTx's markers and ranges: the application's own
// words for what it is doing.
package markers

import (
	_ "embed"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

//go:generate go run ../../ring/genabi

//go:embed schema.sql
var schema string

//go:embed rocpd_api.sql
var rocpdAPI string

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
	Calls:      tracedb.ShownCalls{Table: table.Name, SQL: rocpdAPI, Names: []string{"UserMarker"}},
	Describes:  []ring.Type{TypeCoverage},
	NewDecoder: newDecoder,
	Read:       read,
	CSV:        []kind.Table{phaseTable},
	Export:     export,
}
