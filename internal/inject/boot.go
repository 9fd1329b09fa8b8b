package inject

import (
	"embed"
	"errors"
)

//go:embed all:dist
var dist embed.FS

// ErrNotBuilt means that this binary was built without the bootstrap code.
var ErrNotBuilt = errors.New("bootstrap not built (run: make bootstrap)")

// bootCode returns the bootstrap code that runs in the target (boot/), padded to whole
// 8-byte words; nil if it was not built.
func bootCode() []byte {
	b, err := dist.ReadFile("dist/boot.bin")
	if err != nil {
		return nil
	}
	return append(b, make([]byte, -len(b)&7)...)
}
