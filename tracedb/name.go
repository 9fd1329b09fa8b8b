package tracedb

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// unresolved is the name of a kernel that the payload could not name.
const unresolved = "(unresolved kernel)"

// KernelName demangles a symbol of a code object. The symbol is hostile input, so the
// length is limited: a few bytes can demangle to gigabytes.
func KernelName(symbol string) string {
	symbol = strings.TrimSuffix(symbol, ".kd") // the kernel descriptor's suffix
	if symbol == "" {
		return unresolved
	}
	const longest = 14 // log2 of the bytes of a name
	if name := demangle.Filter(symbol, demangle.NoClones, demangle.MaxLength(longest)); name != "" {
		return name
	}
	return symbol // some malformed symbols demangle to nothing
}

// readableMax limits the total length of the readable names of a file: each can have 16 KiB
// for a symbol of a few bytes. Beyond the limit the symbols themselves are used.
const readableMax = 32 << 20

// kernelName returns the id, in rocpd_string, of the readable name of a symbol.
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
