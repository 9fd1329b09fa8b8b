package tracedb

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// unresolved is the name of a kernel that the payload could not name.
const unresolved = "(unresolved kernel)"

// KernelName makes a symbol of a code object readable. The symbol is hostile:
// demangling is bounded, since a few bytes can stand for gigabytes of name.
func KernelName(symbol string) string {
	symbol = strings.TrimSuffix(symbol, ".kd") // the kernel descriptor's suffix
	if symbol == "" {
		return unresolved
	}
	const longest = 14 // log2 of the bytes of a name
	if name := demangle.Filter(symbol, demangle.NoClones, demangle.MaxLength(longest)); name != "" {
		return name
	}
	return symbol // some malformed symbols stand for nothing
}
