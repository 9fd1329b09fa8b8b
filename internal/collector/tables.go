package collector

import (
	"bytes"
	"math/bits"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// What a target can make the tool remember. Real processes stay far below;
// beyond it definitions are refused and counted.
const (
	maxID          = 1 << 20
	maxLaunches    = 1 << 22 // a payload that has forgotten some gives them new ids
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

// undefinedAgents counts those that were awaited in vain.
func (t *tables) undefinedAgents() (n uint64) {
	for i, word := range t.awaited {
		if i < len(t.agents) {
			word &^= t.agents[i]
		}
		n += uint64(bits.OnesCount64(word))
	}
	return n
}

// addString keeps the text of an id; a second definition replaces nothing.
func (t *tables) addString(id uint32, text []byte) bool {
	if t.strings == nil {
		t.strings = map[uint32]string{}
	}
	if _, defined := t.strings[id]; defined || id == 0 || len(t.strings) >= maxStrings {
		return false
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	// Made plain here, for all who will ever show it: sqlite3's shell, say, does not.
	one := sanitize.Text(string(text))
	if t.stringBytes+len(one) > maxStringBytes {
		return false
	}
	t.strings[id] = one
	t.stringBytes += len(one)
	return true
}

// An idSet is a set of small ids, for a look-up per dispatch.
type idSet []uint64

// add defines an id; false: it is 0, not below the bound, or defined already.
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
