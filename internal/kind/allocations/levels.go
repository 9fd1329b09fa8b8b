package allocations

import (
	"context"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// holder is a process and whose memory it has.
type holder struct {
	process *traceread.Process
	of      owner
}

// level is what the recorded allocations of a holder have.
type level struct {
	*kind.Counter
	bytes int64
}

// levels yields what each process has of the memory of each GPU, and of the host's.
func levels(ctx context.Context, tr *traceread.Trace, visit func(c *kind.Counter, atNS, bytes int64) error) error {
	all := map[holder]*level{}
	return eachEntry(ctx, tr, func(e entry) error {
		for _, b := range []*block{e.gone, e.made} {
			if b == nil || !b.owner.known {
				continue
			}
			key := holder{b.session.Process, b.owner}
			l := all[key]
			if l == nil {
				l = &level{Counter: counter(b)}
				all[key] = l
			}
			if b == e.made {
				l.bytes = traceread.Sum(l.bytes, b.bytes.Int64)
			} else {
				l.bytes = max(0, l.bytes-b.bytes.Int64)
			}
			if err := visit(l.Counter, e.atNS(), l.bytes); err != nil {
				return err
			}
		}
		return nil
	})
}

func counter(b *block) *kind.Counter {
	c := &kind.Counter{
		Session: b.session, GPU: b.agent, Name: "memory allocated",
		About: "bytes of recorded allocations that are not released; memory from before the recording is not in it",
	}
	if b.agent == nil {
		c.Name = "host memory allocated"
	}
	return c
}
