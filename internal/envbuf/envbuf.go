// Package envbuf encodes and decodes the environment buffer, in which the tool passes its
// settings to the payload. The layout is rocprofiler-register's:
//
//	u32 count, little-endian
//	count × name NUL value NUL
//
// Names may repeat; the last one wins. The C half is payload/src/core/env.c: both refuse the
// same buffers with the same messages, and share the vectors of testdata/envbuf.
package envbuf

//go:generate go run ./genheader -o ../../payload/src/core/env_keys.h

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// MaxBytes is the largest size of a buffer.
const MaxBytes = ring.EnvMax

const countBytes = 4

// ErrRefused is wrapped by every error of this package.
var ErrRefused = errors.New("environment buffer refused")

// Fault is an error in a buffer, with its place.
type Fault struct {
	Offset int
	What   string
}

func (f *Fault) Error() string { return fmt.Sprintf("offset %d: %s", f.Offset, f.What) }

func (f *Fault) Unwrap() error { return ErrRefused }

// Var is one variable of a buffer.
type Var struct{ Name, Value string }

func (v Var) sizeBytes() int { return len(v.Name) + 1 + len(v.Value) + 1 }

// Encode encodes vars in their order.
func Encode(vars []Var) ([]byte, error) {
	if len(vars) > math.MaxUint32 {
		return nil, &Fault{0, "too many variables"}
	}
	buf := binary.LittleEndian.AppendUint32(nil, uint32(len(vars)))
	for _, v := range vars {
		switch {
		case v.Name == "":
			return nil, &Fault{len(buf), "empty name"}
		case strings.ContainsAny(v.Name, "=\x00"):
			return nil, &Fault{len(buf) + strings.IndexAny(v.Name, "=\x00"), "'=' or NUL in a name"}
		case strings.Contains(v.Value, "\x00"):
			return nil, &Fault{len(buf) + len(v.Name) + 1 + strings.IndexByte(v.Value, 0), "NUL in the value of " + v.Name}
		case len(buf)+v.sizeBytes() > MaxBytes:
			return nil, &Fault{MaxBytes, fmt.Sprintf("longer than %d bytes", MaxBytes)}
		}
		buf = append(buf, v.Name...)
		buf = append(buf, 0)
		buf = append(buf, v.Value...)
		buf = append(buf, 0)
	}
	return buf, nil
}

// Decode is the inverse of Encode. Each buffer has exactly one list of variables, and each list
// exactly one buffer.
func Decode(buf []byte) ([]Var, error) {
	if len(buf) > MaxBytes {
		return nil, &Fault{MaxBytes, fmt.Sprintf("longer than %d bytes", MaxBytes)}
	}
	if len(buf) < countBytes {
		return nil, &Fault{0, "count truncated"}
	}
	count := binary.LittleEndian.Uint32(buf)
	at := countBytes
	var vars []Var // not preallocated: the count is not trusted
	for range count {
		name, err := text(buf, at, "name")
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, &Fault{at, "empty name"}
		}
		if i := strings.IndexByte(name, '='); i >= 0 {
			return nil, &Fault{at + i, "'=' in a name"}
		}
		value, err := text(buf, at+len(name)+1, "value")
		if err != nil {
			return nil, err
		}
		v := Var{name, value}
		vars = append(vars, v)
		at += v.sizeBytes()
	}
	if at != len(buf) {
		return nil, &Fault{at, "bytes after the last variable"}
	}
	return vars, nil
}

// text returns the NUL-terminated string at an offset.
func text(buf []byte, at int, what string) (string, error) {
	if at == len(buf) {
		return "", &Fault{at, what + " missing"}
	}
	n := bytes.IndexByte(buf[at:], 0)
	if n < 0 {
		return "", &Fault{at, what + " not terminated"}
	}
	return string(buf[at : at+n]), nil
}
