package target

import (
	"errors"
	"strings"
	"time"
)

// toolName is how the command names of this tool begin.
const toolName = "rtl-attach"

// toolPatience is how long Open waits while another rtl-attach traces the process. A tool that works as it should
// traces a thread for a fraction of a second.
const toolPatience = 3 * time.Second

// waitsForTool is a hook for tests: awaitTool calls it, if set, before it waits.
var waitsForTool func()

// awaitTool returns nil once nobody traces the process, and a TracedError if the tracer is not another rtl-attach, or
// one that does not let go.
func (t *Target) awaitTool() error {
	for deadline := time.Now().Add(toolPatience); t.tracer != 0; time.Sleep(time.Millisecond) {
		err := t.Traced(t.tracer)
		var traced *TracedError
		if !errors.As(err, &traced) || !strings.HasPrefix(traced.Name, toolName) || time.Now().After(deadline) {
			return err
		}
		if waitsForTool != nil {
			waitsForTool()
		}
		if err := t.identify(); err != nil {
			return err
		}
	}
	return nil
}
