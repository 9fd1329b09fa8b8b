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

// readableMax bounds the readable names of a file in all: each is up to 16 KiB
// for a symbol of a few bytes. Beyond it symbols stand for themselves.
const readableMax = 32 << 20

// kernelName gives the readable name of a symbol its id in rocpd_string.
func (db *DB) kernelName(symbol string) (int64, error) {
	if id, ok := db.kernels[symbol]; ok {
		return id, nil
	}
	name := symbol
	if db.readableBytes < readableMax {
		name = KernelName(symbol)
		db.readableBytes += len(name)
	}
	id, err := db.intern(name)
	if err == nil {
		db.kernels[symbol] = id
	}
	return id, err
}
