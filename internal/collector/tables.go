package collector

import (
	"bytes"
	"math/bits"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// Limits of the memory that a target can make the tool use. Real processes stay far below
// them; the collector refuses and counts further definitions.
const (
	maxID          = 1 << 20
	maxLaunches    = 1 << 22 // a payload that clears its table assigns new ids
	maxAgents      = 1 << 10
	maxQueues      = 1 << 16
	maxStrings     = 1 << 16
	maxStringBytes = 32 << 20
)

// tables are the ids defined so far.
type tables struct {
	agents, queues, launches, codeObjects idSet

	awaited idSet // agents that were referred to before they were defined

	strings     map[uint32]string
	stringBytes int
}

// undefinedAgents returns the number of agents whose definition never arrived.
func (t *tables) undefinedAgents() (n uint64) {
	for i, word := range t.awaited {
		if i < len(t.agents) {
			word &^= t.agents[i]
		}
		n += uint64(bits.OnesCount64(word))
	}
	return n
}

// addString stores the text of an id; it ignores a second definition.
func (t *tables) addString(id uint32, text []byte) bool {
	if t.strings == nil {
		t.strings = map[uint32]string{}
	}
	if _, defined := t.strings[id]; defined || id == 0 || len(t.strings) >= maxStrings {
		return false
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	// Sanitized here, because other programs print it unchanged (sqlite3's shell, for example).
	one := sanitize.Text(string(text))
	if t.stringBytes+len(one) > maxStringBytes {
		return false
	}
	t.strings[id] = one
	t.stringBytes += len(one)
	return true
}

// idSet is a set of small ids, fast enough for one lookup per dispatch.
type idSet []uint64

// add defines an id; false if the id is 0, not below the limit, or already defined.
func (s *idSet) add(id, bound uint32) bool {
	if id == 0 || id >= bound || s.has(id) {
		return false
	}
	for int(id/64) >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[id/64] |= 1 << (id % 64)
	return true
}

func (s idSet) has(id uint32) bool {
	return int(id/64) < len(s) && s[id/64]&(1<<(id%64)) != 0
}
