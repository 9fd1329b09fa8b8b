package inject

import (
	"embed"
	"errors"
)

//go:embed all:dist
var dist embed.FS

// ErrNotBuilt: this binary carries no bootstrap code.
var ErrNotBuilt = errors.New("bootstrap not built (run: make bootstrap)")

// bootCode is the code that runs in the target (boot/), in whole words; nil if
// it was not built.
func bootCode() []byte {
	b, err := dist.ReadFile("dist/boot.bin")
	if err != nil {
		return nil
	}
	return append(b, make([]byte, -len(b)&7)...)
}
