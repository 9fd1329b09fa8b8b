package export

import (
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// strings writes the strings to which records refer.
func (r *rocprof) strings(s *traceread.Session) error {
	if err := r.text(`"strings":{`); err != nil {
		return err
	}
	if err := r.operations(); err != nil {
		return err
	}
	if err := r.messages(s); err != nil {
		return err
	}
	return r.text("},\n")
}

// operations writes the names of the kinds whose operations have no fixed numbers: an array by
// rocprofiler-sdk's numbers.
func (r *rocprof) operations() error {
	byNumber := map[int64]jsonLine{}
	for _, k := range all.Kinds {
		if k.Export.Operations == nil {
			continue
		}
		if is, err := k.IsIn(r.trace.Trace); err != nil {
			return err
		} else if !is {
			continue
		}
		domain, names, err := k.Export.Operations(r.ctx, r.trace.Trace)
		if err != nil {
			return err
		}
		byNumber[k.Export.BufferKind] = append(jsonLine(nil), '{').text("kind", domain).texts("operations", names)
	}
	if err := r.text(`"buffer_records":[`); err != nil {
		return err
	}
	r.comma = false
	for number := range slices.Max(append(sortedKeys(byNumber), -1)) + 1 {
		r.line = append(r.line[:0], byNumber[number]...)
		if len(r.line) == 0 {
			r.line = append(r.line, '{').text("kind", "").texts("operations", nil)
		}
		r.line = append(r.line, '}')
		if err := r.element(); err != nil {
			return err
		}
	}
	return r.text("]")
}

// messages writes the messages of markers, by the records' correlation ids.
func (r *rocprof) messages(s *traceread.Session) error {
	for _, k := range all.Kinds {
		if !k.Export.Messages {
			continue
		}
		if err := r.text(`,"` + k.Export.Array + `":[`); err != nil {
			return err
		}
		if err := r.messagesOf(k, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *rocprof) messagesOf(k *kind.Kind, s *traceread.Session) error {
	r.comma = false
	if is, err := k.IsIn(r.trace.Trace); err != nil {
		return err
	} else if is {
		_, err := k.Export.Events(r.ctx, r.trace.Trace, func(e *kind.Event) error {
			if e.Track.Session != s {
				return nil
			}
			r.line = append(append(r.line[:0], '{').int("key", e.ID).text("value", e.Name), '}')
			return r.element()
		})
		if err != nil {
			return err
		}
	}
	return r.text("]")
}
