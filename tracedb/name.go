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

// ReadableNames makes the readable names of symbols, as long as they are not too long together.
type ReadableNames struct{ bytes int }

// Of returns the readable name of a symbol, or the symbol.
func (r *ReadableNames) Of(symbol string) string {
	if r.bytes >= readableMax {
		return symbol
	}
	name := KernelName(symbol)
	r.bytes += len(name)
	return name
}

// kernelName returns the id, in rocpd_string, of the readable name of a symbol.
func (db *DB) kernelName(symbol string) (int64, error) {
	if id, ok := db.kernels[symbol]; ok {
		return id, nil
	}
	id, err := db.intern(db.readable.Of(symbol))
	if err == nil {
		db.kernels[symbol] = id
	}
	return id, err
}
