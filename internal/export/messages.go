package export

import (
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// messages writes the strings to which records refer by their correlation ids: the messages of
// markers.
func (r *rocprof) messages(s *traceread.Session) error {
	if err := r.text(`"strings":{`); err != nil {
		return err
	}
	separator := ""
	for _, k := range all.Kinds {
		if !k.Export.Messages {
			continue
		}
		if err := r.text(separator + `"` + k.Export.Array + `":[`); err != nil {
			return err
		}
		if err := r.messagesOf(k, s); err != nil {
			return err
		}
		separator = ","
	}
	return r.text("},\n")
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
