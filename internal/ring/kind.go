package ring

import (
	"fmt"
	"slices"
)

// Kind is a kind of record (enum rtl_kind): its place in Counters.Kind, and its
// bit among the kinds that a session records.
type Kind uint32

// KindNamed finds a kind by its name, as RTL_TRACE lists it.
func KindNamed(name string) (k Kind, known bool) {
	i := slices.Index(kindNames[:], name)
	return Kind(max(i, 0)), i >= 0 && name != ""
}

// String is the kind's name.
func (k Kind) String() string {
	if k < KindsMax && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// kindTypes is how many record types a kind has (RTL_KIND_TYPE in abi.h).
const kindTypes = 16

// Kind is the kind that a record type belongs to; false: it is a definition, or belongs
// to the frame of a session.
func (t Type) Kind() (k Kind, of bool) {
	if t < KindTypes {
		return 0, false
	}
	return Kind((t - KindTypes) / kindTypes), true
}

// isOneLine says whether the type is known here, and its records have one line each. Kinds
// check their own.
func (t Type) isOneLine() bool {
	return t <= TypeEnd || t == TypeDispatch || t == TypeUntimed
}
