package ring

import (
	"fmt"
	"slices"
)

// Kind is a kind of record (enum rtl_kind): its place in Counters.Kind, and its
// bit among the kinds that a session records.
type Kind uint32

// KindNamed returns the kind with this name in RTL_TRACE.
func KindNamed(name string) (k Kind, known bool) {
	i := slices.Index(kindNames[:], name)
	return Kind(max(i, 0)), i >= 0 && name != ""
}

// String returns the kind's name.
func (k Kind) String() string {
	if k < KindsMax && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// kindTypes is how many record types a kind has (RTL_KIND_TYPE in abi.h).
const kindTypes = 16

// Kind returns the kind to which a record type belongs; false: the type is common to all kinds.
func (t Type) Kind() (k Kind, of bool) {
	if t < KindTypes {
		return 0, false
	}
	return Kind((t - KindTypes) / kindTypes), true
}

// Type returns the n-th record type of a kind.
func (k Kind) Type(n int) Type { return KindTypes + kindTypes*Type(k) + Type(n) }

// isOneLine reports whether the type is a known common one whose records have one line. Kinds
// check their own types.
func (t Type) isOneLine() bool {
	return t <= TypeCounters || t == TypeDispatch || t == TypeUntimed
}
