package export

import "strconv"

// jsonLine builds one line of JSON. It escapes the strings of a kernel once and then copies
// them (names).
type jsonLine []byte

// key begins a member. Keys are constants and need no escapes.
func (l jsonLine) key(name string) jsonLine {
	if last := l[len(l)-1]; last != '{' && last != '[' {
		l = append(l, ',')
	}
	return append(append(append(l, '"'), name...), '"', ':')
}

func (l jsonLine) int(name string, v int64) jsonLine {
	return strconv.AppendInt(l.key(name), v, 10)
}

func (l jsonLine) bool(name string, v bool) jsonLine {
	return strconv.AppendBool(l.key(name), v)
}

func (l jsonLine) text(name, v string) jsonLine { return appendJSON(l.key(name), v) }

func (l jsonLine) texts(name string, all []string) jsonLine {
	l = append(l.key(name), '[')
	for i, v := range all {
		if i > 0 {
			l = append(l, ',')
		}
		l = appendJSON(l, v)
	}
	return append(l, ']')
}

func (l jsonLine) micros(name string, ns int64) jsonLine { return appendMicros(l.key(name), ns) }

func (l jsonLine) raw(name string, v []byte) jsonLine { return append(l.key(name), v...) }

func (l jsonLine) xyz(name string, v [3]int64) jsonLine {
	return append(append(l.key(name), '{').int("x", v[0]).int("y", v[1]).int("z", v[2]), '}')
}

// handle writes an id in the form of rocprofiler's handles.
func (l jsonLine) handle(name string, v int64) jsonLine {
	return append(append(l.key(name), '{').int("handle", v), '}')
}

// mostEscaped limits the bytes of escaped names in memory.
const mostEscaped = 64 << 20

// escaped holds names, escaped for a format, by their ids in the trace.
type escaped struct {
	escape func([]byte, string) []byte
	names  map[int64][]byte
	bytes  int
}

func newEscaped(escape func([]byte, string) []byte) *escaped {
	return &escaped{escape: escape, names: map[int64][]byte{}}
}

func (e *escaped) name(l *launch) []byte {
	if name, ok := e.names[l.nameID]; ok {
		return name
	}
	name := e.escape(nil, l.name)
	if e.bytes += len(name); e.bytes > mostEscaped {
		clear(e.names)
		e.bytes = len(name)
	}
	e.names[l.nameID] = name
	return name
}

// coverage writes a session's coverage as an object.
func (l jsonLine) coverage(name string, c Coverage) jsonLine {
	return append(append(l.key(name), '{').int("session", c.Session).int("pid", c.PID).bool("complete", c.Complete()).
		int("dispatches", c.Dispatches).int("timed", c.Timed).int("records_lost", c.Lost).bool("records_lost_unknown", c.LostMore).
		int("queues_open_ended", c.OpenEnded).
		int("raw_claims", c.RawClaims).int("queues_foreign", c.Foreign).int("queues_unrecorded", c.Unrecorded).text("text", c.String()), '}')
}
