package envbuf

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// Resolve returns the value of every key for the payload: the last variable of that name, or the
// default. It ignores variables without a key, and refuses a bad value even if a later one would
// win.
func Resolve(vars []Var) (map[string]string, error) {
	settings := make(map[string]string, len(Keys))
	for i := range Keys {
		settings[Keys[i].Name] = Keys[i].defaultText()
	}
	at := countBytes
	for _, v := range vars {
		if i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == v.Name }); i >= 0 {
			value, complaint := Keys[i].normal(v.Value)
			if complaint != "" {
				return nil, &Fault{at + len(v.Name) + 1, v.Name + ": " + complaint}
			}
			settings[v.Name] = value
		}
		at += v.sizeBytes()
	}
	return settings, nil
}

func (k *Key) defaultText() string {
	switch k.Kind {
	case Number:
		return strconv.FormatUint(k.Default, 10)
	case Choice:
		return k.Choices[k.Default]
	case Set:
		return setText(k.Default)
	default:
		return ""
	}
}

// normal returns the canonical form of a value ("007" is 7), or an error text.
func (k *Key) normal(value string) (normal, complaint string) {
	switch k.Kind {
	case Number:
		return k.normalNumber(value)
	case Choice:
		if !slices.Contains(k.Choices, value) {
			return "", "not one of " + strings.Join(k.Choices, "|")
		}
	case Set:
		return k.normalSet(value)
	default:
		if uint64(len(value)) >= k.Max {
			return "", fmt.Sprintf("longer than %d bytes", k.Max-1)
		}
	}
	return value, ""
}

// normalSet returns the names in the order of their bits, with those of the default.
func (k *Key) normalSet(value string) (normal, complaint string) {
	set := k.Default
	if value != "" {
		for name := range strings.SplitSeq(value, ",") {
			kind, known := ring.KindNamed(name)
			if !known {
				return "", "not a list of kinds of record: " + value
			}
			set |= 1 << kind
		}
	}
	return setText(set), ""
}

func setText(set uint64) string {
	var names []string
	for ; set != 0; set &= set - 1 {
		names = append(names, ring.Kind(bits.TrailingZeros64(set)).String())
	}
	return strings.Join(names, ",")
}

func (k *Key) normalNumber(value string) (normal, complaint string) {
	if value == "" || strings.Trim(value, "0123456789") != "" {
		return "", "not a decimal number"
	}
	n, err := strconv.ParseUint(value, 10, 64)
	switch {
	case err != nil || n < k.Min || n > k.Max: // all are digits, so err is an overflow
		return "", fmt.Sprintf("not between %d and %d", k.Min, k.Max)
	case k.PowerOfTwo && bits.OnesCount64(n) != 1:
		return "", "not a power of two"
	}
	return strconv.FormatUint(n, 10), ""
}
